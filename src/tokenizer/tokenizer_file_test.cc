// Hostile and foreign files: each row is the small valid file with one change.
#include "tokenizer/tokenizer_file.h"

#include <gmock/gmock.h>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::string valid_file() {
  return testing::read_source("tests/fuzz/corpus/tokenizer_json/pairs.json");
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = valid_file();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

struct Change {
  const char* from;
  const char* to;
  ErrorCode code;
  const char* message;  // a part of it
};

constexpr ErrorCode kCorrupt = ErrorCode::kCorruptData;
constexpr ErrorCode kForeign = ErrorCode::kUnsupported;

void expect_refused(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const auto file = read_tokenizer_file(with(change.from, change.to));
    ASSERT_FALSE(file.has_value()) << change.to;
    EXPECT_EQ(file.error().code, change.code) << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(change.message));
  }
}

TEST(TokenizerFile, BothSpellingsOfMergesReadAlike) {
  const auto pairs = read_tokenizer_file(valid_file());
  const auto strings =
      read_tokenizer_file(testing::read_source("tests/fuzz/corpus/tokenizer_json/strings.json"));
  ASSERT_TRUE(pairs.has_value()) << pairs.error().message;
  ASSERT_TRUE(strings.has_value()) << strings.error().message;
  EXPECT_EQ(pairs->symbols, strings->symbols);
  ASSERT_EQ(pairs->merges.size(), 6U);
  ASSERT_EQ(strings->merges.size(), 6U);
  for (size_t i = 0; i < pairs->merges.size(); ++i) {
    EXPECT_EQ(pairs->merges[i].left, strings->merges[i].left);
    EXPECT_EQ(pairs->merges[i].right, strings->merges[i].right);
    EXPECT_EQ(pairs->merges[i].result, 259 + static_cast<int32_t>(i));
    EXPECT_EQ(strings->merges[i].result, pairs->merges[i].result);
  }
  EXPECT_EQ(pairs->symbols.size(), 269U);
  EXPECT_EQ(pairs->symbols[261], "Ġthe");
  EXPECT_EQ(pairs->bytes[261], " the");
  EXPECT_EQ(pairs->bytes[264], "é");
  EXPECT_EQ(pairs->bytes[267], "｜DSML｜");
  EXPECT_EQ(pairs->byte_ids[' '], 223);
}

TEST(TokenizerFile, WhatMayBeLeftOut) {
  EXPECT_TRUE(read_tokenizer_file(with("\"truncation\":null,", "")).has_value());
  EXPECT_TRUE(read_tokenizer_file(with("\"version\":\"1.0\",", "")).has_value());
  EXPECT_TRUE(read_tokenizer_file(with("\"byte_fallback\":false,", "")).has_value());
  EXPECT_TRUE(read_tokenizer_file(with("\"fuse_unk\"", "\"ignore_merges\":false,\"fuse_unk\""))
                  .has_value());
}

TEST(TokenizerFile, ForeignShapesAreRefused) {
  expect_refused({
      {"\"normalizers\":[]", "\"normalizers\":[{\"type\":\"NFC\"}]", kForeign,
       "normalizer.normalizers: expected 0 items, found an array of 1"},
      {"{\"type\":\"Sequence\",\"normalizers\":[]}", "null", kForeign,
       "normalizer: expected an object, found null"},
      {"\"truncation\":null", "\"truncation\":{\"max_length\":5}", kForeign,
       "truncation: expected null, found an object"},
      {"\"padding\":null,", "\"padding\":null,\"speed\":1,", kForeign,
       "speed: expected no such member, found 1"},
      {"{1,3}", "{1,4}", kForeign,
       "pre_tokenizer.pretokenizers[0].pattern.Regex: expected \"\\\\p{N}{1,3}\", found"},
      {"一-龥", "一-龦", kForeign, "pretokenizers[1].pattern.Regex"},
      {"[A-Za-z]+", "[a-z]+", kForeign, "pretokenizers[2].pattern.Regex"},
      {"\"Isolated\"", "\"Removed\"", kForeign,
       "behavior: expected \"Isolated\", found \"Removed\""},
      {"\"invert\":false", "\"invert\":true", kForeign, "invert: expected false, found true"},
      {",\"invert\":false", "", kForeign, "invert: expected a value, found nothing"},
      {"\"use_regex\":false", "\"use_regex\":true", kForeign,
       "use_regex: expected false, found true"},
      {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", kForeign,
       "model.type: expected \"BPE\", found \"Unigram\""},
      {"\"dropout\":null", "\"dropout\":0.1", kForeign, "model.dropout: expected null, found 0.1"},
      {"\"unk_token\":null", "\"unk_token\":\"<unk>\"", kForeign, "model.unk_token"},
      {"\"fuse_unk\":false", "\"fuse_unk\":true", kForeign, "model.fuse_unk"},
      {"\"byte_fallback\":false", "\"byte_fallback\":true", kForeign,
       "model.byte_fallback: expected false, found true"},
      {"\"byte_fallback\":false", "\"ignore_merges\":true", kForeign,
       "model.ignore_merges: expected false, found true"},
      {"\"lstrip\":false", "\"lstrip\":true", kForeign,
       "added_tokens[0].lstrip: expected false, found true"},
      {"\"rstrip\":false", "\"rstrip\":true", kForeign, "added_tokens[0].rstrip"},
      {"\"single_word\":false", "\"single_word\":true", kForeign, "added_tokens[0].single_word"},
      {"{\"id\":0,", "{", kForeign, "added_tokens[0].id: expected a value, found nothing"},
      {"\"decoder\":{", "\"decoder\":7,\"x\":{", kForeign, "x: expected no such member"},
      {"\"merges\":", "\"mergers\":", kForeign, "model.mergers"},
  });
}

TEST(TokenizerFile, ContradictionsAreRefused) {
  expect_refused({
      {"{\"id\":0,", "{\"id\":\"0\",", kCorrupt, "added_tokens[0].id: expected an id, found \"0\""},
      {"{\"id\":0,", "{\"id\":5,", kCorrupt,
       "added_tokens[0].id: expected 0 as in model.vocab, found 5"},
      {"\"id\":265", "\"id\":2147483648", kCorrupt, "expected an id of 0 .. 268, found 2147483648"},
      {"\"id\":265", "\"id\":4294967561", kCorrupt, "expected an id of 0 .. 268"},  // 2^32 + 265
      {"\"id\":265", "\"id\":-1", kCorrupt, "expected an id of 0 .. 268, found -1"},
      {"\"id\":265", "\"id\":99999999999999999999", kCorrupt, "expected an id, found 9999"},
      {"\"id\":265", "\"id\":264", kCorrupt, "expected an id that \"Ã©\" does not have, found 264"},
      {"<think>", "<｜User｜>", kCorrupt, "content: expected a spelling not seen before"},
      {"<think>", "", kCorrupt, "content: expected a string of 1 to 512 bytes"},
      {"\"special\":true", "\"special\":1", kCorrupt,
       "added_tokens[0].special: expected a boolean, found 1"},
      {"\"normalized\":false", "\"normalized\":null", kCorrupt, "added_tokens[0].normalized"},
      {"\"added_tokens\":[", "\"added_tokens\":{\"x\":[", kCorrupt, "not JSON"},
      {"\"Ń\":258", "\"Ń\":257", kCorrupt,
       "model.vocab \"Ń\": expected an id that \"ł\" does not have, found 257"},
      {"\"Ń\":258", "\"Ń\":2.5", kCorrupt, "model.vocab[\"Ń\"]: expected an id, found 2.5"},
      {"\"Ń\":258", "\"ń\":258", kCorrupt,
       "expected symbols of the byte-level alphabet, found \"ń\""},
      {"\"Ń\":258", "\"NN\":258", kCorrupt, "model.vocab: expected a symbol \"Ń\", found nothing"},
      {"\"Ń\":258", "\"\":258", kCorrupt, "expected a symbol that is not empty"},
      {"\"ł\":257,", "\"Ń\":257,", kCorrupt, "the key \"Ń\" is there twice"},
      {"\"Ġthe\":261", "\"Ġthe\":269", kCorrupt,
       "model.vocab \"Ġthe\": expected an id of 0 .. 268, found 269"},
      {"[\"h\",\"e\"]", "[\"h\",\"x\"]", kCorrupt,
       "model.merges[0]: expected two symbols of the vocabulary that make a third"},
      {"[\"h\",\"e\"]", "[\"he\",\"\"]", kCorrupt, "model.merges[0]: expected two symbols"},
      {"[\"h\",\"e\"]", "[\"h\",\"e\",\"e\"]", kCorrupt, "model.merges[0]: expected two symbols"},
      {"[\"h\",\"e\"]", "\"h  e\"", kCorrupt, "model.merges[0]: expected two symbols"},
      {"[\"h\",\"e\"]", "7", kCorrupt,
       "model.merges[0]: expected two symbols, as \"a b\" or [\"a\", \"b\"], found 7"},
      {"[\"Ġ\",\"t\"]", "[\"h\",\"e\"]", kCorrupt,
       "model.merges[1]: expected a pair not seen before"},
      {"\"merges\":[", "\"merges\":7,\"x\":[", kForeign, "model.x"},
  });
}

TEST(TokenizerFile, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "{", "nul", "{}x", "\xFF", "{\"a\":1,\"a\":2}"}) {
    const auto file = read_tokenizer_file(text);
    ASSERT_FALSE(file.has_value()) << text;
    EXPECT_EQ(file.error().code, kCorrupt) << text;
  }
  for (const char* text : {"{}", "[]", "null", "7", "\"*\""}) {
    const auto file = read_tokenizer_file(text);
    ASSERT_FALSE(file.has_value()) << text;
    EXPECT_EQ(file.error().code, kForeign) << text;
  }
  const auto deep = read_tokenizer_file(std::string(1'000'000, '['));
  ASSERT_FALSE(deep.has_value());
  EXPECT_THAT(deep.error().message, HasSubstr("nested deeper than 32 levels"));
}

TEST(TokenizerFile, EveryPrefixOfAValidFileIsRefused) {
  const std::string text = valid_file();
  for (size_t size = 0; size < text.size(); size += 7) {
    EXPECT_FALSE(read_tokenizer_file(std::string_view(text).substr(0, size)).has_value()) << size;
  }
}

}  // namespace
}  // namespace stoker
