#include "tokenizer/unicode_class.h"

#include <gtest/gtest.h>

#include <set>

namespace stoker {
namespace {

TEST(UnicodeClass, ExamplesOfEveryClass) {
  EXPECT_EQ(char_class(U'a'), CharClass::kLetter);
  EXPECT_EQ(char_class(U'々'), CharClass::kLetter);
  EXPECT_EQ(char_class(0x0301), CharClass::kMark);
  EXPECT_EQ(char_class(U'½'), CharClass::kNumber);
  EXPECT_EQ(char_class(U'Ⅻ'), CharClass::kNumber);
  EXPECT_EQ(char_class(U'〇'), CharClass::kNumber);
  EXPECT_EQ(char_class(U'_'), CharClass::kPunctuation);
  EXPECT_EQ(char_class(U'|'), CharClass::kSymbol);
  EXPECT_EQ(char_class(0x200D), CharClass::kOther);  // a format character
  EXPECT_EQ(char_class(0), CharClass::kOther);
  EXPECT_EQ(char_class(0x10FFFF), CharClass::kOther);
}

TEST(UnicodeClass, IsOfVersion16) {
  EXPECT_EQ(char_class(0x105C0), CharClass::kLetter);  // Todhri, new in 16.0
  EXPECT_EQ(char_class(0x1FAE9), CharClass::kSymbol);  // face with bags under eyes, new in 16.0
  EXPECT_EQ(char_class(0x16EA0), CharClass::kOther);   // Beria Erfe, new in 17.0
}

TEST(UnicodeClass, WhiteSpaceIsTheProperty) {
  std::set<char32_t> found;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (char_class(c) == CharClass::kWhiteSpace) found.insert(c);
  }
  const std::set<char32_t> expected = {0x9,    0xA,    0xB,    0xC,    0xD,    0x20,   0x85,
                                       0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                       0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                       0x2029, 0x202F, 0x205F, 0x3000};
  EXPECT_EQ(found, expected);
}

TEST(UnicodeClass, RunsCoverAllCodePointsInOrder) {
  const auto runs = unicode_runs();
  ASSERT_FALSE(runs.empty());
  EXPECT_EQ(runs[0] / 8, 0U);
  for (size_t i = 1; i < runs.size(); ++i) {
    EXPECT_LT(runs[i - 1] / 8, runs[i] / 8);
    EXPECT_NE(runs[i - 1] % 8, runs[i] % 8);
    EXPECT_LE(runs[i] % 8, static_cast<uint32_t>(CharClass::kWhiteSpace));
  }
}

}  // namespace
}  // namespace stoker
