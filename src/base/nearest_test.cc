#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

TEST(NearestName, TakesTheFewestLetters) {
  const std::vector<std::string_view> names = {"method", "num_speculative_tokens", "model"};
  EXPECT_EQ(nearest_name("methods", names), "method");
  EXPECT_EQ(nearest_name("mode", names), "model");
  EXPECT_EQ(nearest_name("num_spec_tokens", names), "num_speculative_tokens");
  EXPECT_EQ(nearest_name("", names), "model") << "the shortest";
  EXPECT_EQ(nearest_name("model", names), "model");
}

TEST(NearestName, TakesTheFirstOfEqualOnes) {
  const std::vector<std::string_view> names = {"aa", "bb"};
  EXPECT_EQ(nearest_name("ab", names), "aa");
}

}  // namespace
}  // namespace stoker
