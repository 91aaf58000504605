#include "kernels/measured_plan.h"

#include <gmock/gmock.h>

#include <random>

namespace stoker::kernels {
namespace {

using ::testing::HasSubstr;

MeasuredPlan random_plan(uint64_t seed) {
  std::mt19937_64 random(seed);
  MeasuredPlan plan;
  for (MeasuredLevel& item : plan) {
    item.chosen = static_cast<Isa>(random() % kNumLevels);
    for (int64_t& ns : item.ns)
      ns = random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 1'000'000'000'000 + 1);
  }
  return plan;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(MeasuredPlan, ItsTextComesBack) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const MeasuredPlan plan = random_plan(seed);
    const std::string text = plan_text(plan);
    EXPECT_LE(text.size(), kMaxPlanTextBytes);
    const auto parsed = parse_plan(text);
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
    EXPECT_TRUE(*parsed == plan) << seed;
  }
}

TEST(MeasuredPlan, TheLongestTextIsWithinTheLimit) {
  MeasuredPlan plan;
  plan.fill({Isa::kAvx512Bf16, {1'000'000'000'000, 1'000'000'000'000, 1'000'000'000'000}});
  EXPECT_LE(plan_text(plan).size(), kMaxPlanTextBytes);
}

TEST(MeasuredPlan, ItemsHaveNamesOfTheirOwn) {
  const std::string text = plan_text(unmeasured(plan_of(Isa::kAvx2)));
  EXPECT_THAT(text, HasSubstr("format=1\nbf16.1=avx2\nbf16.2=avx2\nbf16.4=avx2\n"));
  EXPECT_THAT(text, HasSubstr("\nfp4.64=avx2\nindex_scores=avx2\nrest=avx2\n"));
}

TEST(MeasuredPlan, EveryChoiceReachesItsPlace) {
  const Isa last = usable_levels().back();
  for (size_t i = 0; i < kNumPlanItems; ++i) {
    MeasuredPlan measured = unmeasured(plan_of(Isa::kAvx2));
    measured[i].chosen = last;
    const auto plan = kernel_plan_of(measured);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan_text(unmeasured(*plan)), plan_text(measured));
    const PlanItem item = plan_item(i);
    const Kernels* found = item.rows > 0 ? &plan->product(item.format, item.rows)
                           : item.operation == "index_scores" ? plan->index_scores
                                                              : plan->rest;
    EXPECT_EQ(found->isa, last) << item.operation << " " << item.rows;
  }
}

TEST(MeasuredPlan, RefusesALevelThatThisProcessorLacks) {
  const std::vector<Isa> usable = usable_levels();
  if (usable.size() == kNumLevels) GTEST_SKIP() << "this processor has every level";
  MeasuredPlan measured = unmeasured(plan_of(Isa::kAvx2));
  measured[3].chosen = Isa::kAvx512Bf16;
  const auto plan = kernel_plan_of(measured);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(plan.error().message, HasSubstr("bf16.8"));
}

TEST(MeasuredPlan, RefusesEveryOtherText) {
  const std::string text = plan_text(unmeasured(plan_of(Isa::kAvx2)));
  struct Case {
    std::string text;
    ErrorCode code;
    std::string message;
  };
  const ErrorCode damaged = ErrorCode::kCorruptData;
  const Case cases[] = {
      {"", damaged, "format=..."},
      {replaced(text, "format=1", "format=2"), ErrorCode::kUnsupported, "another version"},
      {replaced(text, "fp8.4=avx2\n", ""), damaged, "fp8.4=..."},
      {replaced(text, "fp8.4=avx2", "fp8.4=avx10"), damaged,
       "fp8.4: expected a level, found 'avx10'"},
      {replaced(text, "fp8.4=avx2", "fp8.3=avx2"), damaged, "fp8.4=..."},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:0"), damaged, "rest: expected nanoseconds"},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:1000000000001"), damaged, "nanoseconds"},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:99999999999999999999"), damaged, "nanoseconds"},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:-5"), damaged, "nanoseconds"},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:07"), damaged, "once, and nothing else"},
      {replaced(text, "rest=avx2", "rest=avx2 avx512:7 avx2:7"), damaged, "in their order"},
      {replaced(text, "rest=avx2", "rest=avx2 avx2:7 avx2:8"), damaged, "once"},
      {text + "\n", damaged, "nothing else"},
      {text.substr(0, text.size() - 1), damaged, "nothing else"},
      {text + std::string(kMaxPlanTextBytes, 'x'), damaged, "at most 4096 bytes"},
  };
  for (const Case& at : cases) {
    const auto parsed = parse_plan(at.text);
    ASSERT_FALSE(parsed) << at.text;
    EXPECT_EQ(parsed.error().code, at.code) << at.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(at.message)) << at.text;
  }
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(parse_plan(text.substr(0, size)));
}

}  // namespace
}  // namespace stoker::kernels
