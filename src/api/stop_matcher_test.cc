#include "api/stop_matcher.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

struct Shown {
  std::string text;
  std::optional<std::string> matched;
  bool operator==(const Shown&) const = default;
};

Shown run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Shown shown;
  for (const std::string& piece : pieces) shown.text += matcher.push(piece);
  shown.text += matcher.finish();
  shown.matched = matcher.matched();
  return shown;
}

// Every way to cut the text into pieces gives the same.
void expect_for_every_cut(const std::vector<std::string>& stops, const std::string& text,
                          const Shown& expected) {
  ASSERT_LE(text.size(), 12U);
  for (size_t cuts = 0; cuts < size_t{1} << (text.size() - 1); ++cuts) {
    std::vector<std::string> pieces = {""};
    for (size_t i = 0; i < text.size(); ++i) {
      pieces.back() += text[i];
      if ((cuts >> i & 1) != 0) pieces.emplace_back();
    }
    EXPECT_EQ(run(stops, pieces), expected) << text << " cut as " << cuts;
  }
}

TEST(StopMatcher, CutsBeforeTheMatchForEveryCutOfTheText) {
  expect_for_every_cut({"stop"}, "go stop now", {"go ", "stop"});
  expect_for_every_cut({"stop"}, "go sto now", {"go sto now", std::nullopt});
  expect_for_every_cut({"aab"}, "aaaab", {"aa", "aab"});
  expect_for_every_cut({"abc", "b"}, "xabcd", {"xa", "b"});  // the one that ends first
  expect_for_every_cut({"b", "ab"}, "xabcd", {"x", "ab"});   // at the same end the longest
  expect_for_every_cut({"\n\n"}, "a\nb\n\nc", {"a\nb", "\n\n"});
  expect_for_every_cut({"x"}, "xyz", {"", "x"});
}

// Field fault: an answer that ends with a proper prefix of the mark lost its tail.
TEST(StopMatcher, WhatIsHeldBackComesOutAtTheEnd) {
  const std::string stop = "</stop>";
  for (size_t n = 1; n < stop.size(); ++n) {
    StopMatcher matcher({stop});
    EXPECT_EQ(matcher.push("2 " + stop.substr(0, n)), "2 ");
    EXPECT_EQ(matcher.finish(), stop.substr(0, n));
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanItMust) {
  StopMatcher matcher({"abcd", "cx"});
  EXPECT_EQ(matcher.push("zzab"), "zz");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.push("e"), "abce");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.push("y"), "cy");
  EXPECT_EQ(StopMatcher({}).push("any"), "any");
}

TEST(StopMatcher, NothingComesAfterAMatch) {
  StopMatcher matcher({"s"});
  EXPECT_EQ(matcher.push("as more"), "a");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

}  // namespace
}  // namespace stoker
