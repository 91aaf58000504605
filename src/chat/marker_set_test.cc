#include "chat/marker_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::chat {
namespace {

// Follows the automaton over one byte, as its readers do.
MarkerSet::Node follow(const MarkerSet& set, MarkerSet::Node node, char byte) {
  for (;;) {
    const MarkerSet::Node next = set.child(node, byte);
    if (next != MarkerSet::kNone) return next;
    if (node == MarkerSet::kRoot) return node;
    node = set.fallback(node);
  }
}

// The longest end of the text with which a marker begins.
std::string_view longest_end(std::string_view text, const std::vector<Marker>& markers) {
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view end = text.substr(at);
    if (std::any_of(markers.begin(), markers.end(),
                    [end](const Marker& m) { return m.text.starts_with(end); })) {
      return end;
    }
  }
  return {};
}

TEST(MarkerSet, HoldsTheLongestEndThatBeginsAMarker) {
  const std::vector<std::vector<Marker>> sets = {
      {{"aab", Mark::kBlock}},
      {{"abac", Mark::kBlock}, {"bb", Mark::kInvoke}},
      {{"<ab", Mark::kBlock}, {"</ab", Mark::kEndOfTag}, {"b<c", Mark::kQuote}},
      {{"abcabd", Mark::kBlock}, {"cac", Mark::kQuote}},
  };
  std::mt19937 random(1);
  for (const auto& markers : sets) {
    const MarkerSet set(markers);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      MarkerSet::Node node = MarkerSet::kRoot;
      for (int i = 0; i < 60; ++i) {
        text += "abc</d"[random() % 6];
        node = follow(set, node, text.back());
        const std::string_view expected = longest_end(text, markers);
        ASSERT_EQ(set.text(node), expected) << text;
        const auto whole = std::find_if(markers.begin(), markers.end(),
                                        [expected](const Marker& m) { return m.text == expected; });
        ASSERT_EQ(set.mark(node), whole == markers.end() ? Mark::kNone : whole->mark) << text;
      }
    }
  }
}

TEST(MarkerSet, PlainBytesBeginNoMarker) {
  const MarkerSet set({{"<ab", Mark::kBlock}, {"\"", Mark::kQuote}});
  EXPECT_EQ(set.num_plain("ab<"), 2U);
  EXPECT_EQ(set.num_plain("b\na"), 1U);
  EXPECT_EQ(set.num_plain("\"a"), 0U);
  EXPECT_EQ(set.num_plain("\xFF\x80"), 2U);
  EXPECT_EQ(MarkerSet({}).num_plain("<\""), 2U);
}

}  // namespace
}  // namespace stoker::chat
