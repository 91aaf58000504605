#include "base/utf8.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint back = decode_utf8(text, 0);
    ASSERT_TRUE(back.valid);
    ASSERT_EQ(back.value, c);
    ASSERT_EQ(back.length, text.size());
  }
}

TEST(Utf8, RepairReplacesMaximalSubparts) {
  EXPECT_EQ(repair_utf8("a\xff"
                        "b"),
            "a\uFFFDb");
  EXPECT_EQ(repair_utf8("\xe4\xbd"
                        "b"),
            "\uFFFDb");                                          // truncated: one
  EXPECT_EQ(repair_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate: three
  EXPECT_EQ(repair_utf8("\xf0\x9f\x98"), "\uFFFD");
  EXPECT_EQ(repair_utf8("\xc0\xaf"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(repair_utf8("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(repair_utf8("é😀"), "é😀");
}

TEST(Utf8, TailIsHeldOnlyIfItCanBecomeACharacter) {
  EXPECT_EQ(incomplete_utf8_tail("abc"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("ab\xf0"), 1U);
  EXPECT_EQ(incomplete_utf8_tail("ab\xf0\x9f\x98"), 3U);
  EXPECT_EQ(incomplete_utf8_tail("ab\xf0\x9f\x98\x80"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xed\xa0"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xe0\x80"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xff"), 0U);
  EXPECT_EQ(incomplete_utf8_tail(""), 0U);
}

}  // namespace
}  // namespace stoker
