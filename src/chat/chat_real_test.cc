// Prompts and hidden ids with the released tokenizer, which is not kept here: the file that
// STOKER_REAL_TOKENIZER names, or build/real/tokenizer.json as tests/data/tokenizer/make_real.py
// writes it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "chat/chat.h"
#include "support/chat.h"

namespace stoker::chat {
namespace {

using testing::golden_chats;
using testing::GoldenChat;
using testing::kMaxTestFileBytes;
using testing::kNumGoldenChats;

class ChatRealTest : public testing::TokenizerTest {
 protected:
  void SetUp() override {
    const char* given = std::getenv("STOKER_REAL_TOKENIZER");
    const std::string path =
        given != nullptr ? given : STOKER_SOURCE_DIR "/build/real/tokenizer.json";
    const auto json = read_file(path, kMaxTestFileBytes);
    if (!json.has_value() && json.error().code == ErrorCode::kNotFound) {
      GTEST_SKIP() << "SKIP: no released tokenizer at " << path
                   << "; make it with tests/data/tokenizer/make_real.py or set "
                      "STOKER_REAL_TOKENIZER";
    }
    ASSERT_TRUE(json.has_value()) << json.error().message;
    load(*json);
  }
};

TEST_F(ChatRealTest, GoldenIds) {
  const std::vector<GoldenChat> chats = golden_chats();
  ASSERT_EQ(chats.size(), kNumGoldenChats);
  for (const GoldenChat& chat : chats) {
    const auto prompt = encoder->encode(chat.conversation);
    ASSERT_TRUE(prompt.has_value()) << chat.name << ": " << prompt.error().message;
    EXPECT_EQ(prompt->ids, chat.ids) << chat.name;
  }
}

TEST_F(ChatRealTest, HiddenIds) {
  const auto is_hidden = [](int32_t id) {
    const auto within = [id](int32_t first, int32_t last) { return id >= first && id <= last; };
    return within(0, 2) || within(128000, 128799) || within(128803, 128805) ||
           within(128828, 129270) || id == 129279;
  };
  ASSERT_EQ(tokenizer->size(), 129280);
  for (int32_t id = 0; id < tokenizer->size(); ++id)
    EXPECT_EQ(encoder->is_hidden(id), is_hidden(id)) << id << ' ' << tokenizer->symbol(id);
}

}  // namespace
}  // namespace stoker::chat
