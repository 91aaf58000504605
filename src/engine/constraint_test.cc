#include "engine/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/regex.h"

namespace stoker::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kEnd = 4;    // of the text
constexpr int32_t kThink = 5;  // ends the reasoning

// a, b, ab, c, an end, and a token without text; answers are "ab" as often as one likes, and a "c".
ConstraintPlan plan(std::optional<int32_t> starts_after = {}) {
  const std::vector<int32_t> never = {kThink};
  const std::vector<int32_t> ends = {kEnd};
  const auto vocabulary = std::make_shared<const grammar::Vocabulary>(
      std::vector<std::string>{"a", "b", "ab", "c", "", "</think>"}, never, ends);
  const auto parsed = grammar::from_regex("(ab)*c");
  EXPECT_TRUE(parsed.has_value());
  auto program = grammar::Program::compile(*parsed, vocabulary);
  EXPECT_TRUE(program.has_value());
  return {*program, starts_after};
}

std::vector<int32_t> allowed(Constraint& constraint) {
  std::vector<int32_t> ids;
  const auto mask = constraint.mask().value();
  for (int32_t id = 0; id < 6; ++id) {
    if (!mask.empty() && ((mask[0] >> id) & 1U) != 0) ids.push_back(id);
  }
  return ids;
}

TEST(Constraint, FollowsTheTokens) {
  Constraint constraint(plan());
  EXPECT_THAT(allowed(constraint), ElementsAre(0, 2, 3));
  EXPECT_TRUE(constraint.accept(0));
  EXPECT_THAT(allowed(constraint), ElementsAre(1));
  EXPECT_FALSE(constraint.accept(3));
  EXPECT_TRUE(constraint.accept(1));
  EXPECT_TRUE(constraint.accept(3));
  EXPECT_THAT(allowed(constraint), ElementsAre(kEnd));
  constraint.roll_back(2);
  EXPECT_THAT(allowed(constraint), ElementsAre(1));
}

TEST(Constraint, HoldsFromItsStartOn) {
  Constraint constraint(plan(kThink));
  EXPECT_THAT(constraint.mask().value(), IsEmpty());
  EXPECT_TRUE(constraint.accept(3));
  EXPECT_TRUE(constraint.accept(1)) << "reasoning is free";
  EXPECT_THAT(constraint.mask().value(), IsEmpty());
  EXPECT_TRUE(constraint.accept(kThink));
  EXPECT_THAT(allowed(constraint), ElementsAre(0, 2, 3));
  EXPECT_TRUE(constraint.accept(2));
  EXPECT_TRUE(constraint.accept(3));
  constraint.roll_back(2);
  EXPECT_THAT(allowed(constraint), ElementsAre(0, 2, 3));
  EXPECT_TRUE(constraint.accept(2));
  constraint.roll_back(3);  // also the start, and a token before
  EXPECT_THAT(constraint.mask().value(), IsEmpty());
  EXPECT_TRUE(constraint.accept(1));
  EXPECT_TRUE(constraint.accept(kThink));
  EXPECT_THAT(allowed(constraint), ElementsAre(0, 2, 3));
}

// Reasoning is "b" as often as one likes, then the answer.
TEST(Constraint, HoldsSomethingElseUntilItsStart) {
  ConstraintPlan both = plan(kThink);
  const std::vector<int32_t> never = {kThink};
  const std::vector<int32_t> ends = {kEnd};
  const auto vocabulary = std::make_shared<const grammar::Vocabulary>(
      std::vector<std::string>{"a", "b", "ab", "c", "", "</think>"}, never, ends);
  both.before = *grammar::Program::compile(*grammar::from_regex("b*"), vocabulary);
  Constraint constraint(both);
  EXPECT_THAT(allowed(constraint), ElementsAre(1, kEnd, kThink));
  EXPECT_FALSE(constraint.accept(0));
  EXPECT_TRUE(constraint.accept(1));
  EXPECT_TRUE(constraint.accept(1));
  EXPECT_TRUE(constraint.accept(kThink));
  EXPECT_THAT(allowed(constraint), ElementsAre(0, 2, 3));
  EXPECT_TRUE(constraint.accept(3));
  constraint.roll_back(3);  // an answer's, the start, and one before
  EXPECT_THAT(allowed(constraint), ElementsAre(1, kEnd, kThink));
  EXPECT_TRUE(constraint.accept(kThink));
  EXPECT_TRUE(constraint.accept(2));
  EXPECT_TRUE(constraint.accept(3));
  EXPECT_THAT(allowed(constraint), ElementsAre(kEnd));
  constraint.roll_back(4);  // all
  EXPECT_TRUE(constraint.accept(kEnd));
}

}  // namespace
}  // namespace stoker::engine
