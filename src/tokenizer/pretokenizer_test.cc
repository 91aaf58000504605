#include "tokenizer/pretokenizer.h"

#include <gmock/gmock.h>

#include <string>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

using ::testing::ElementsAreArray;

struct Case {
  std::string text;
  std::vector<std::string> pieces;
};

TEST(Pretokenizer, CutsAsThePatternsDo) {
  const Case cases[] = {
      {"", {}},
      {"Hello world", {"Hello", " world"}},
      // Numbers: up to three digits of any kind; a space never goes with them.
      {"1234567", {"123", "456", "7"}},
      {"x 12", {"x", " ", "12"}},
      {"a  9", {"a", "  ", "9"}},
      {"½Ⅻ٣4", {"½Ⅻ٣", "4"}},
      // CJK: runs of the ranges, a middle dot splits them, others are letters like any.
      {"a中b", {"a", "中", "b"}},
      {"a  中", {"a", "  ", "中"}},
      {"カタカナ・テスト", {"カタカナ", "・", "テスト"}},
      {"々中", {"々", "中"}},
      // The ends of the ranges, each beside a letter that is outside.
      {"〻ぁ", {"〻", "ぁ"}},
      {"\u3040a", {"\u3040", "a"}},
      {"ヿㄅ", {"ヿ", "ㄅ"}},
      {"䶿一", {"䶿", "一"}},
      {"龥龦", {"龥", "龦"}},
      {"한글 시험", {"한글", " 시험"}},
      // An ASCII sign with ASCII letters; a letter with a diacritic ends it.
      {"don't", {"don", "'t"}},
      {"f(x)", {"f", "(x", ")"}},
      {".comé", {".com", "é"}},
      {"</think", {"</", "think"}},
      // Letters and marks with one character before them, if that is no letter, sign or line end.
      {"\tword", {"\tword"}},
      {"  word", {" ", " word"}},
      {"\u00A0n", {"\u00A0n"}},
      {"\u200Bz", {"\u200Bz"}},
      {"\nword", {"\n", "word"}},
      {"e\u0301clair", {"e\u0301clair"}},
      {"\u0301a", {"\u0301a"}},
      {"!\u0301", {"!", "\u0301"}},
      // Signs with one space before and line ends after them.
      {" ...\n\n", {" ...\n\n"}},
      {"  ...", {" ", " ..."}},
      {"a \u2014 b", {"a", " \u2014", " b"}},
      {"\u00A0.", {"\u00A0", "."}},
      // White space: to the last line end; else all but the last character before a non-space.
      {"a \n \n b", {"a", " \n \n", " b"}},
      {"a\r\nb", {"a", "\r\n", "b"}},
      {"a   ", {"a", "   "}},
      {"a \u2003\u3000b", {"a", " \u2003", "\u3000b"}},
      {"a  \u200D!", {"a", " ", " ", "\u200D", "!"}},
      // What no alternative matches is a piece of its own, as long as it lasts.
      {std::string("\0\0!", 3), {std::string("\0\0", 2), "!"}},
      {std::string("\0a", 2), {std::string("\0a", 2)}},
      {"\U0001F469\u200D\U0001F680", {"\U0001F469", "\u200D", "\U0001F680"}},
  };
  for (const Case& c : cases) {
    const auto pieces = pretokenize(c.text);
    EXPECT_THAT(std::vector<std::string>(pieces.begin(), pieces.end()), ElementsAreArray(c.pieces))
        << c.text;
  }
}

TEST(Pretokenizer, PiecesTogetherAreTheText) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string text = testing::random_text(random, random() % 60);
    std::string joined;
    for (const std::string_view piece : pretokenize(text)) {
      EXPECT_FALSE(piece.empty());
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace stoker
