// For tests of the chat room: an encoder over the small tokenizer, and
// tests/data/chat/golden_chat.json as values. Golden requests that hold more than text messages,
// `thinking` and `reasoning_effort` are out of the room's reach; they are told apart, never guessed
// at.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "chat/chat.h"
#include "chat/conversation.h"
#include "tokenizer/tokenizer.h"

namespace stoker::testing {

using chat::Conversation;
using chat::Encoder;
using chat::Message;

struct GoldenChat {
  std::string name;
  Conversation conversation;
  std::string rendered;
  // Code point ranges of `rendered` that are control tokens; empty: not told.
  std::vector<std::pair<int64_t, int64_t>> special;
  std::vector<int32_t> ids;  // of the released tokenizer
};

template <size_t n>
bool only_keys(const Json& object, const std::array<std::string_view, n>& keys) {
  return std::all_of(object.members().begin(), object.members().end(), [&](const auto& member) {
    return std::find(keys.begin(), keys.end(), member.first) != keys.end();
  });
}

// nullopt: not text alone.
inline std::optional<std::vector<std::string>> golden_content(const Json* content) {
  std::vector<std::string> blocks;
  if (content == nullptr || content->is_null()) return blocks;
  if (content->is_string()) return std::vector{content->as_string()};
  for (const Json& block : content->items()) {
    const Json* text = block.find("text");
    if (text == nullptr) return std::nullopt;
    blocks.push_back(text->as_string());
  }
  return blocks;
}

inline std::optional<Message> golden_message(const Json& json) {
  constexpr std::array<std::string_view, 3> kKeys = {"role", "content", "reasoning_content"};
  auto content = golden_content(json.find("content"));
  if (!only_keys(json, kKeys) || !content.has_value()) return std::nullopt;
  const Json* reasoning = json.find("reasoning_content");
  return Message{json.find("role")->as_string(), *std::move(content),
                 reasoning == nullptr ? "" : reasoning->as_string()};
}

// nullopt: the request holds more than text messages, thinking and effort.
inline std::optional<Conversation> golden_conversation(const Json& request) {
  constexpr std::array<std::string_view, 3> kKeys = {"messages", "thinking", "reasoning_effort"};
  if (!only_keys(request, kKeys)) return std::nullopt;
  Conversation conversation;
  for (const Json& json : request.find("messages")->items()) {
    auto message = golden_message(json);
    if (!message.has_value()) return std::nullopt;
    conversation.messages.push_back(*std::move(message));
  }
  if (const Json* thinking = request.find("thinking")) {
    conversation.thinking = thinking->find("type")->as_string();
  }
  if (const Json* effort = request.find("reasoning_effort")) {
    conversation.reasoning_effort = effort->as_string();
  }
  return conversation;
}

constexpr size_t kMaxTestFileBytes = size_t{64} << 20;

// Null where the file cannot be read.
inline Json golden_chat_file() {
  const auto text =
      read_file(STOKER_SOURCE_DIR "/tests/data/chat/golden_chat.json", kMaxTestFileBytes);
  if (!text.has_value()) return {};
  auto json = Json::parse(*text);
  return json.has_value() ? *std::move(json) : Json();
}

// The conversations within reach, in the order of the file.
inline std::vector<GoldenChat> golden_chats() {
  const Json file = golden_chat_file();
  std::vector<GoldenChat> chats;
  const Json* all = file.find("conversations");
  if (all == nullptr) return chats;
  for (const Json& json : all->items()) {
    auto conversation = golden_conversation(*json.find("request"));
    if (!conversation.has_value()) continue;
    GoldenChat chat{json.find("name")->as_string(),
                    *std::move(conversation),
                    json.find("rendered")->as_string(),
                    {},
                    {}};
    for (const Json& id : json.find("ids")->items()) {
      chat.ids.push_back(static_cast<int32_t>(id.as_int().value_or(-1)));
    }
    if (const Json* special = json.find("special")) {
      for (const Json& range : special->items()) {
        chat.special.emplace_back(range.items()[0].as_int().value_or(-1),
                                  range.items()[1].as_int().value_or(-1));
      }
    }
    chats.push_back(std::move(chat));
  }
  return chats;
}

// Of the file's 75; the others need tools, images, response formats or a continued reply.
inline constexpr size_t kNumGoldenChats = 38;

inline constexpr const char* kSmallTokenizer =
    STOKER_SOURCE_DIR "/tests/data/small/checkpoint/tokenizer.json";

// Has the template's control tokens, no grounding tokens, and bytes with a few merges.
class SmallTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto json = read_file(kSmallTokenizer, kMaxTestFileBytes);
    ASSERT_TRUE(json.has_value()) << json.error().message;
    auto parsed = Tokenizer::parse(*json);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    tokenizer.emplace(*std::move(parsed));
    auto created = Encoder::create(*tokenizer);
    ASSERT_TRUE(created.has_value()) << created.error().message;
    encoder.emplace(*std::move(created));
  }

  std::optional<Tokenizer> tokenizer;
  std::optional<Encoder> encoder;
};

}  // namespace stoker::testing
