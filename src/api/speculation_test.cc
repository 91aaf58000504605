// --speculative-config: vLLM's spellings, and clear refusals.
#include "stoker/speculation.h"

#include <gmock/gmock.h>

#include "stoker/engine.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(SpeculativeConfig, TakesWordsAndVllmsKeys) {
  EXPECT_EQ(parse_speculative_config("auto")->mode, Speculation::kAuto);
  EXPECT_EQ(parse_speculative_config("off")->mode, Speculation::kOff);
  const auto all = parse_speculative_config(
      R"({"method":"dspark","num_speculative_tokens":3,"enable_adaptive_verification":false,
          "draft_sample_method":"match","rejection_sample_method":"match"})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->mode, Speculation::kOn);
  EXPECT_EQ(all->num_speculative_tokens, 3);
  EXPECT_FALSE(all->enable_adaptive_verification);
  const auto empty = parse_speculative_config("{}");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->mode, Speculation::kOn);
  EXPECT_FALSE(empty->num_speculative_tokens);
  EXPECT_TRUE(empty->enable_adaptive_verification);
}

TEST(SpeculativeConfig, RefusalsNameKeyAndValue) {
  const struct {
    const char* text;
    const char* field;
    const char* message;
  } kCases[] = {
      {"on", "speculative_config", "expected auto, off or a JSON object"},
      {"[]", "speculative_config", "found an array"},
      {"{", "speculative_config", "expected auto, off or a JSON object"},
      {R"({"method":"dspark","method":"dspark"})", "speculative_config", "method"},
      {R"({"method":"eagle"})", "speculative_config.method", R"(found "eagle")"},
      {R"({"method":1})", "speculative_config.method", "found 1"},
      {R"({"num_speculative_tokens":0})", "speculative_config.num_speculative_tokens", "found 0"},
      {R"({"num_speculative_tokens":2.5})", "speculative_config.num_speculative_tokens", "2.5"},
      {R"({"num_speculative_tokens":99999})", "speculative_config.num_speculative_tokens", "99999"},
      {R"({"enable_adaptive_verification":1})", "speculative_config.enable_adaptive_verification",
       "true or false"},
      {R"({"rejection_sample_method":"block"})", "speculative_config.rejection_sample_method",
       "would change answers"},
      {R"({"draft_sample_method":"probabilistic"})", "speculative_config.draft_sample_method",
       "would change answers"},
      {R"({"num_spec_tokens":3})", "speculative_config.num_spec_tokens",
       R"(did you mean "num_speculative_tokens"?)"},
  };
  for (const auto& one : kCases) {
    const auto parsed = parse_speculative_config(one.text);
    ASSERT_FALSE(parsed) << one.text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << one.text;
    EXPECT_EQ(parsed.error().field, one.field) << one.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(one.message)) << one.text;
  }
}

TEST(SpeculationOptionsAtOpen, MoreThanABlockIsRefused) {
  EngineOptions options;
  options.num_threads = 1;
  options.weights.pack = false;
  options.speculation.num_speculative_tokens = 6;
  const auto engine = Engine::open(testing::kSmallCheckpoint, options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().field, "speculative_config.num_speculative_tokens");
  EXPECT_THAT(engine.error().message, HasSubstr("expected 1 to "));
}

}  // namespace
}  // namespace stoker
