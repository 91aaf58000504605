#include "checkpoint/side_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GenerationConfig, Reads) {
  const auto all = parse_generation_config(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2, "eos_token_id": [1, 7], "x": {}})",
      10);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->temperature, 0.6);
  EXPECT_EQ(all->top_p, 0.95);
  EXPECT_EQ(all->min_p, 0.1);
  EXPECT_EQ(all->repetition_penalty, 1.2);
  EXPECT_EQ(all->top_k, 40);
  EXPECT_THAT(all->eos_token_ids, ElementsAre(1, 7));

  const auto nothing =
      parse_generation_config(R"({"temperature": null, "eos_token_id": null})", 10);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->temperature || nothing->top_p || nothing->top_k || nothing->min_p ||
               nothing->repetition_penalty);
  EXPECT_TRUE(nothing->eos_token_ids.empty());

  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": 9})", 10)->eos_token_ids, ElementsAre(9));
  EXPECT_EQ(parse_generation_config(R"({"do_sample": false, "temperature": 0.6})", 10)->temperature,
            0.0);
  EXPECT_EQ(parse_generation_config(R"({"do_sample": false})", 10)->temperature, 0.0);
  EXPECT_EQ(parse_generation_config(R"({"top_k": -1})", 10)->top_k, -1);
}

TEST(GenerationConfig, Refuses) {
  for (const auto& [text, key] :
       {std::pair(R"({"temperature": -0.1})", "temperature"),
        std::pair(R"({"temperature": "1"})", "temperature"), std::pair(R"({"top_p": 0})", "top_p"),
        std::pair(R"({"min_p": 1.5})", "min_p"),
        std::pair(R"({"repetition_penalty": 0})", "repetition_penalty"),
        std::pair(R"({"top_p": 1.5})", "top_p"), std::pair(R"({"top_k": -2})", "top_k"),
        std::pair(R"({"top_k": 1.5})", "top_k"),
        std::pair(R"({"eos_token_id": 10})", "eos_token_id"),
        std::pair(R"({"eos_token_id": [1, -1]})", "eos_token_id"),
        std::pair(R"({"do_sample": 1})", "do_sample")}) {
    const auto config = parse_generation_config(text, 10);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(config.error().message, HasSubstr(std::string(key) + ": expected")) << text;
  }
  EXPECT_EQ(parse_generation_config("[]", 10).error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(parse_generation_config("{", 10).error().code, ErrorCode::kCorruptData);
}

TEST(TokenizerConfig, MustNotAddTokens) {
  EXPECT_TRUE(check_tokenizer_config("{}"));
  EXPECT_TRUE(check_tokenizer_config(R"({"add_bos_token": false, "add_eos_token": false})"));
  EXPECT_EQ(check_tokenizer_config(R"({"add_bos_token": true})").error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(check_tokenizer_config(R"({"add_eos_token": true})").error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(check_tokenizer_config("3").error().code, ErrorCode::kCorruptData);
}

TEST(Index, Reads) {
  const auto map = parse_index(
      R"({"metadata": {"total_size": 3}, "weight_map": {"a": "x.safetensors", "b": "y"}})");
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map->size(), 2U);
  EXPECT_EQ(map->at("a"), "x.safetensors");
}

TEST(Index, Refuses) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": ""}})", R"({"weight_map": {"a": "../x"}})",
        R"({"weight_map": {"a": "/etc/passwd"}})", R"({"weight_map": {"a": ".."}})",
        R"({"weight_map": {"a": "b/c"}})", R"({"weight_map": {"a": "x\u0000y"}})",
        R"({"weight_map": {"a": "x\ny"}})", R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    const auto map = parse_index(text);
    ASSERT_FALSE(map) << text;
    EXPECT_EQ(map.error().code, ErrorCode::kCorruptData) << text;
  }
  EXPECT_FALSE(parse_index(R"({"weight_map": {"a": ")" + std::string(256, 'x') + "\"}}"));
}

}  // namespace
}  // namespace stoker
