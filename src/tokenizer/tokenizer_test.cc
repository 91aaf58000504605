#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

using Added = Tokenizer::AddedTokens;

// Pushes the ids one by one; at every step, what came so far and what is held are the decoding of
// the ids so far.
void expect_streams(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                    bool skip_special) {
  Detokenizer stream(tokenizer, skip_special);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    text += stream.push(ids[i]);
    EXPECT_TRUE(is_valid_utf8(text));
    Detokenizer stopped = stream;
    EXPECT_EQ(text + stopped.finish(), tokenizer.decode({ids.data(), i + 1}, skip_special));
  }
}

std::vector<int32_t> byte_ids(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
      if (tokenizer.bytes(id) == std::string_view(&byte, 1)) ids.push_back(id);
    }
  }
  EXPECT_EQ(ids.size(), bytes.size());
  return ids;
}

TEST(Tokenizer, EncodesTheGoldenTexts) {
  const Json golden = testing::read_source_json("tests/data/small/golden/tokenize.json");
  ASSERT_FALSE(golden.items().empty());
  for (const Json& item : golden.items()) {
    const std::string& text = item.find("text")->as_string();
    EXPECT_EQ(testing::small_tokenizer().encode(text, Added::kMatch),
              testing::ids_of(*item.find("ids")))
        << text;
  }
}

TEST(Tokenizer, KnowsItsIds) {
  const Tokenizer& tokenizer = testing::small_tokenizer();
  EXPECT_EQ(tokenizer.size(), 578);
  EXPECT_EQ(tokenizer.added_token("<｜begin▁of▁sentence｜>"), 0);
  EXPECT_EQ(tokenizer.added_token("Ġ"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_EQ(tokenizer.symbol(223), "Ġ");
  EXPECT_EQ(tokenizer.bytes(223), " ");
  EXPECT_EQ(tokenizer.bytes(1), "<｜end▁of▁sentence｜>");
  EXPECT_EQ(tokenizer.symbol(1), "<｜end▁of▁sentence｜>");
}

TEST(Tokenizer, AddedTokensAreMatchedOrText) {
  const Tokenizer& tokenizer = testing::small_tokenizer();
  const std::string text = "before <think> after";
  const int32_t think = tokenizer.added_token("<think>").value();
  std::vector<int32_t> expected = tokenizer.encode("before ", Added::kMatch);
  expected.push_back(think);
  for (const int32_t id : tokenizer.encode(" after", Added::kMatch)) expected.push_back(id);
  EXPECT_EQ(tokenizer.encode(text, Added::kMatch), expected);

  const auto plain = tokenizer.encode(text, Added::kIgnore);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), think), 0);
  EXPECT_EQ(tokenizer.decode(plain, true), text);
}

TEST(Tokenizer, DecodingUndoesEncoding) {
  std::mt19937 random(3);
  const Tokenizer& tokenizer = testing::small_tokenizer();
  for (int i = 0; i < 500; ++i) {
    const std::string text = testing::random_text(random, random() % 80);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Added::kMatch), false), text);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Added::kIgnore), true), text);
  }
}

TEST(Tokenizer, IllFormedTextIsRepairedFirst) {
  std::mt19937 random(4);
  const Tokenizer& tokenizer = testing::small_tokenizer();
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = testing::random_bytes(random, random() % 40);
    const auto ids = tokenizer.encode(bytes, Added::kMatch);
    EXPECT_EQ(ids, tokenizer.encode(repair_utf8(bytes), Added::kMatch));
    EXPECT_EQ(tokenizer.decode(ids, false), repair_utf8(bytes));
  }
}

TEST(Tokenizer, DecodeSkipsSpecialAndUnknownIds) {
  const Tokenizer& tokenizer = testing::small_tokenizer();
  const int32_t think = tokenizer.added_token("<think>").value();
  const std::vector<int32_t> ids = {0, think, 578, -1, INT32_MAX, INT32_MIN, 223, 1};
  EXPECT_EQ(tokenizer.decode(ids, true), "<think> ");
  EXPECT_EQ(tokenizer.decode(ids, false), "<｜begin▁of▁sentence｜><think> <｜end▁of▁sentence｜>");
  expect_streams(tokenizer, ids, true);
  expect_streams(tokenizer, ids, false);
}

TEST(Detokenizer, EmitsCharactersAsTheyComplete) {
  const struct {
    std::string bytes;
    std::vector<std::string> pushed;
    std::string finished;
  } cases[] = {
      {"\xF0\x9F\xA6\x91", {"", "", "", "🦑"}, ""},
      {"a\xC3\xA9", {"a", "", "é"}, ""},
      {"\xE2\x96", {"", ""}, "\uFFFD"},  // cut short
      {"\xE2\x96"
       "a",
       {"", "",
        "\uFFFD"
        "a"},
       ""},                                                  // broken off
      {"\xE2\xE2\x96\x81", {"", "\uFFFD", "", "▁"}, ""},     // broken off by a new one
      {"\xC0\xAF", {"\uFFFD", "\uFFFD"}, ""},                // can never be valid: not held
      {"\xED\xA0\x80", {"", "\uFFFD\uFFFD", "\uFFFD"}, ""},  // a surrogate
      {"\xF4\x90", {"", "\uFFFD\uFFFD"}, ""},                // beyond U+10FFFF
      {"\xEF\xBF\xBD"
       "a",
       {"", "", "\uFFFD", "a"},
       ""},  // U+FFFD itself does not stall
  };
  const Tokenizer& tokenizer = testing::small_tokenizer();
  for (const auto& c : cases) {
    Detokenizer stream(tokenizer, true);
    std::vector<std::string> pushed;
    for (const int32_t id : byte_ids(tokenizer, c.bytes)) pushed.push_back(stream.push(id));
    EXPECT_EQ(pushed, c.pushed);
    EXPECT_EQ(stream.finish(), c.finished);
  }
}

TEST(Detokenizer, StreamsWhatDecodeSays) {
  std::mt19937 random(5);
  const Tokenizer& tokenizer = testing::small_tokenizer();
  for (int i = 0; i < 200; ++i) {
    std::vector<int32_t> ids(random() % 40);
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % 580) - 1;  // also one below and one above
    expect_streams(tokenizer, ids, i % 2 == 0);
    expect_streams(tokenizer, byte_ids(tokenizer, testing::random_bytes(random, 20)), true);
  }
}

TEST(Tokenizer, AMegabyteOfOneCharacterIsQuick) {
  const Tokenizer& tokenizer = testing::small_tokenizer();
  for (const char c : {'a', ' ', '.', '7', '\xE4'}) {
    const std::string text(1 << 20, c);
    const auto start = std::chrono::steady_clock::now();
    const auto ids = tokenizer.encode(text, Added::kMatch);
    EXPECT_LT(std::chrono::steady_clock::now() - start, testing::kHostileLimit) << c;
    EXPECT_EQ(tokenizer.decode(ids, false), repair_utf8(text));
  }
}

}  // namespace
}  // namespace stoker
