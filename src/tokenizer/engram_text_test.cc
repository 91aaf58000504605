#include "tokenizer/engram_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/utf8.h"

namespace stoker {
namespace {

// What tools/reference/v41/engram.py, normalise, makes of each.
TEST(EngramText, NormalisesAsTheReferenceDoes) {
  const struct {
    const char* text;
    const char* normal;
  } cases[] = {
      {"", ""},
      {"The", "the"},
      {" The ", "the"},
      {"ＡＢ１", "ab1"},  // width
      {"ﬁ", "fi"},        // a ligature
      {"Éé", "ee"},       // accents
      {"İI", "ii"},       // the dot is dropped before case
      {"ΟΔΟΣ", "οδοσ"},   // no final sigma
      {"ẞ", "ß"},         // lower case, not case folding
      {"한", "\u1112\u1161\u11ab"},
      {" ", " "},  // a lone space stays
      {"\t\r\n ", " "},
      {"\u00A0", " "},  // a space by NFKC
      {"\u2028", ""},   // white space that is only stripped
      {"a \t b", "a b"},
      {"a\u2028 b", "a\u2028 b"},
      {"\x1F", "\x1F"},    // no White_Space
      {"\u0301", ""},      // nothing but a mark
      {"a\u20DDb", "ab"},  // an enclosing mark
      {"\uE000", " "},
      {"x\uE000", "x "},
      {"\u1CF2", ""},        // a mark in Unicode 9.0
      {"\u1DF6", "\u1DF6"},  // a mark since 10.0: inert
      {"a\u0BD7\u1DF6\u0301", "a\u1DF6"},
      {"\u111C9", "\u111C9"},
      {"\U00016EA0", "\U00016EBB"},  // lower case of Unicode 17
      {"\uA7CB", "\u0264"},
  };
  for (const auto& c : cases) EXPECT_EQ(engram_text(c.text), c.normal) << c.text;
}

// Every code point in between two that may compose with it. The digest is that of engram.py's
// normalise, under Unicode 14: one text "A", c, U+0301 for each scalar value c, each normal form
// followed by a line feed.
TEST(EngramText, EqualsTheReferenceOnEveryCodePoint) {
  uint64_t digest = 0xCBF29CE484222325;  // FNV-1a
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "A";
    append_utf8(text, c);
    text += "\u0301";
    for (const char byte : engram_text(text) + "\n") {
      digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    }
  }
  EXPECT_EQ(digest, 0x57105AA1863C7C6D);
}

TEST(EngramText, ZeroBytesAreTextToo) {
  EXPECT_EQ(engram_text(std::string_view("\0A\0", 3)), std::string_view("\0a\0", 3));
}

}  // namespace
}  // namespace stoker
