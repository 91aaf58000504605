// For tests of the chat room: an encoder over the small tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/mapped_file.h"
#include "chat/chat.h"
#include "support/golden_chat.h"
#include "tokenizer/tokenizer.h"

namespace stoker::testing {

using chat::Encoder;

inline constexpr const char* kSmallTokenizer =
    STOKER_SOURCE_DIR "/tests/data/small/checkpoint/tokenizer.json";

// A tokenizer, and the encoder over it.
class TokenizerTest : public ::testing::Test {
 protected:
  void load(const std::string& json) {
    auto parsed = Tokenizer::parse(json);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    tokenizer.emplace(*std::move(parsed));
    auto created = Encoder::create(*tokenizer);
    ASSERT_TRUE(created.has_value()) << created.error().message;
    encoder.emplace(*std::move(created));
  }

  std::optional<Tokenizer> tokenizer;
  std::optional<Encoder> encoder;
};

// Has the template's control tokens, no grounding tokens, and bytes with a few merges.
class SmallTokenizerTest : public TokenizerTest {
 protected:
  void SetUp() override {
    const auto json = read_file(kSmallTokenizer, kMaxTestFileBytes);
    ASSERT_TRUE(json.has_value()) << json.error().message;
    load(*json);
  }
};

}  // namespace stoker::testing
