#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

// Tokens in brackets, text as it is.
std::string show(const AddedTokenFinder& finder, std::string_view text) {
  std::string out;
  for (const auto& segment : finder.split(text)) {
    if (segment.id) {
      out.append("[")
          .append(std::to_string(*segment.id))
          .append(":")
          .append(segment.text)
          .append("]");
    } else {
      out.append("(").append(segment.text).append(")");
    }
  }
  return out;
}

AddedToken raw(int32_t id, const char* spelling) {
  return {id, spelling, false, false};
}
AddedToken normalized(int32_t id, const char* spelling) {
  return {id, spelling, true, false};
}

TEST(AddedTokenFinder, LeftmostThenLongest) {
  const AddedTokenFinder finder({raw(1, "ab"), raw(2, "abcd"), raw(3, "bcdefg"), raw(4, "x")});
  EXPECT_EQ(show(finder, ""), "");
  EXPECT_EQ(show(finder, "nothing"), "(nothing)");
  EXPECT_EQ(show(finder, "abc"), "[1:ab](c)");
  EXPECT_EQ(show(finder, "abcdefg"), "[2:abcd](efg)");  // the third would start later
  EXPECT_EQ(show(finder, "-abx-bcdefgx"), "(-)[1:ab][4:x](-)[3:bcdefg][4:x]");
  EXPECT_EQ(show(finder, "a"), "(a)");
}

TEST(AddedTokenFinder, NormalizedTokensComeSecond) {
  // In one pass "<a" would win, as it starts first.
  const AddedTokenFinder finder({normalized(1, "<a"), raw(2, "ab"), normalized(3, "c")});
  EXPECT_EQ(show(finder, "<abc"), "(<)[2:ab][3:c]");
  EXPECT_EQ(show(finder, "<a b"), "[1:<a]( b)");
}

TEST(AddedTokenFinder, FindsIdsBySpelling) {
  const AddedTokenFinder finder({raw(1, "ab"), normalized(2, "abc")});
  EXPECT_EQ(finder.find("ab"), 1);
  EXPECT_EQ(finder.find("abc"), 2);
  EXPECT_EQ(finder.find("a"), std::nullopt);
  EXPECT_EQ(finder.find(""), std::nullopt);
  EXPECT_EQ(AddedTokenFinder().find("a"), std::nullopt);
  EXPECT_EQ(show(AddedTokenFinder(), "text"), "(text)");
}

}  // namespace
}  // namespace stoker
