// Prompts in ids of the released tokenizer, which is not kept here: the file that
// STOKER_REAL_TOKENIZER names, or build/real/tokenizer.json as tests/data/tokenizer/make_real.py
// writes it.
#include <gtest/gtest.h>

#include <cstdlib>
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

TEST(ChatRealTest, GoldenIds) {
  const char* given = std::getenv("STOKER_REAL_TOKENIZER");
  const std::string path =
      given != nullptr ? given : STOKER_SOURCE_DIR "/build/real/tokenizer.json";
  const auto json = read_file(path, kMaxTestFileBytes);
  if (!json.has_value() && json.error().code == ErrorCode::kNotFound) {
    GTEST_SKIP() << "SKIP: no released tokenizer at " << path
                 << "; make it with tests/data/tokenizer/make_real.py or set STOKER_REAL_TOKENIZER";
  }
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto tokenizer = Tokenizer::parse(*json);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const auto encoder = Encoder::create(*tokenizer);
  ASSERT_TRUE(encoder.has_value()) << encoder.error().message;
  const std::vector<GoldenChat> chats = golden_chats();
  ASSERT_EQ(chats.size(), kNumGoldenChats);
  for (const GoldenChat& chat : chats) {
    const auto prompt = encoder->encode(chat.conversation);
    ASSERT_TRUE(prompt.has_value()) << chat.name << ": " << prompt.error().message;
    EXPECT_EQ(prompt->ids, chat.ids) << chat.name;
  }
  const auto point = tokenizer->added_token("<｜point｜>");
  ASSERT_TRUE(point.has_value());
  EXPECT_FALSE(encoder->is_hidden(*point));  // special, but clients read it
}

}  // namespace
}  // namespace stoker::chat
