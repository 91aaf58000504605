// Expressions: what matches, what is refused and where.
#include "grammar/regex.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "grammar/regular.h"
#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

Regular regular_or_die(const std::string& expression, RegexMatch match = RegexMatch::kWhole) {
  GrammarBuilder builder;
  auto root = add_regex(builder, expression, match);
  EXPECT_TRUE(root.has_value()) << expression << ": " << root.error().message;
  auto grammar = std::move(builder).finish(*root);
  auto regular = to_regular(*grammar);
  EXPECT_TRUE(regular.has_value()) << regular.error().message;
  return *std::move(regular);
}

TEST(GrammarRegex, MatchesWhatTheNotationMeans) {
  struct Case {
    const char* expression;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const Case cases[] = {
      {"abc", {"abc"}, {"ab", "abcd", ""}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"^(a|b)+$", {"a", "abba"}, {"", "abc"}},
      {"a{2,3}b{2}c{1,}", {"aabbc", "aaabbcc"}, {"abbc", "aaaabbc", "aabb"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a", "bcc"}},
      {"[a-cx-]+", {"abcx-"}, {"d", ""}},
      {"[^a-c\\]]", {"d", "é", "日", "😀", "\n"}, {"a", "]", "dd"}},
      {"\\d\\w\\s\\D\\W\\S", {"1_ x-y"}, {"1_ 1-y"}},
      {".", {"a", "日", "😀"}, {"\n", "\r", "", "\xE2\x80\xA8"}},
      {"\\x41\\u00e9\\u{1F600}\\ud83d\\ude00\\n\\0", {std::string("Aé😀😀\n\0", 13)}, {"A"}},
      {"(?:ab)?(?<name>c)", {"abc", "c"}, {"ab"}},
      {"\\/\\.\\*\\-\\^", {"/.*-^"}, {"/a*-^"}},
      {"[\\w.]+@[a-z]+\\.[a-z]{2,}", {"a.b@cd.ef"}, {"a@b.c", "@cd.ef"}},
      {"日{2}", {"日日"}, {"日"}},
      {"}]", {"}]"}, {"]"}},
  };
  for (const Case& one : cases) {
    const Regular regular = regular_or_die(one.expression);
    for (const std::string& text : one.yes)
      EXPECT_TRUE(contains(regular, text)) << one.expression << " " << text;
    for (const std::string& text : one.no)
      EXPECT_FALSE(contains(regular, text)) << one.expression << " " << text;
  }
}

TEST(GrammarRegex, SearchesUnlessAnchored) {
  const Regular free = regular_or_die("b+", RegexMatch::kSearch);
  EXPECT_TRUE(contains(free, "abc"));
  EXPECT_TRUE(contains(free, "\nb日"));
  EXPECT_FALSE(contains(free, "ac"));
  const Regular begin = regular_or_die("^b|c$", RegexMatch::kSearch);
  EXPECT_TRUE(contains(begin, "bxx"));
  EXPECT_TRUE(contains(begin, "xxc"));
  EXPECT_FALSE(contains(begin, "xbcx"));
  EXPECT_TRUE(contains(regular_or_die("", RegexMatch::kSearch), "any"));
}

// Random expressions against the standard library's reading of ECMA-262.
TEST(GrammarRegex, AgreesWithTheStandardLibrary) {
  std::mt19937 random(3);
  const char* atoms[] = {"a", "b", "[ab]", "[^a]", ".", "(a|bc)", "(?:ab)*", "c{2}", "\\d", "\\w"};
  const char* quantifiers[] = {"", "", "*", "+", "?", "{1,2}", "{2,}", "*?"};
  for (int i = 0; i < testing::num_runs(300); ++i) {
    std::string expression;
    for (uint32_t parts = 1 + random() % 4; parts > 0; --parts) {
      expression += atoms[random() % 10];
      if (expression.back() != '*' && expression.back() != '}')
        expression += quantifiers[random() % 8];
      if (random() % 6 == 0) expression += "|";
    }
    const Regular regular = regular_or_die(expression);
    const std::regex expected(expression);
    for (int j = 0; j < 60; ++j) {
      std::string text;
      for (uint32_t length = random() % 7; length > 0; --length) text += "abc1"[random() % 4];
      ASSERT_EQ(contains(regular, text), std::regex_match(text, expected))
          << expression << " on " << text;
    }
  }
}

TEST(GrammarRegex, SaysWhereItStops) {
  struct Case {
    const char* expression;
    ErrorCode code;
    const char* part;
  };
  const Case cases[] = {
      {"a(b", ErrorCode::kInvalidArgument, "byte 3"},
      {"a)", ErrorCode::kInvalidArgument, "byte 1"},
      {"[a", ErrorCode::kInvalidArgument, "byte 2"},
      {"*a", ErrorCode::kInvalidArgument, "byte 0"},
      {"a{3,2}", ErrorCode::kInvalidArgument, "byte 6"},
      {"[z-a]", ErrorCode::kInvalidArgument, "byte 4"},
      {"\\u12", ErrorCode::kInvalidArgument, "byte 4"},
      {"\xFF", ErrorCode::kInvalidArgument, "UTF-8"},
      {"(?=a)", ErrorCode::kUnsupported, "look-ahead"},
      {"(?<!a)", ErrorCode::kUnsupported, "look-behind"},
      {"a\\b", ErrorCode::kUnsupported, "word border"},
      {"(a)\\1", ErrorCode::kUnsupported, "back reference"},
      {"\\p{L}", ErrorCode::kUnsupported, "Unicode"},
      {"(^a)", ErrorCode::kUnsupported, "anchor"},
      {"a$b", ErrorCode::kUnsupported, "anchor"},
      {"\\ud800x", ErrorCode::kUnsupported, "surrogate"},
      {"a**", ErrorCode::kUnsupported, "quantifier"},
      {"a{1000000}", ErrorCode::kInvalidArgument, "at most"},
  };
  for (const Case& one : cases) {
    const auto grammar = from_regex(one.expression);
    ASSERT_FALSE(grammar.has_value()) << one.expression;
    EXPECT_EQ(grammar.error().code, one.code) << one.expression;
    EXPECT_NE(grammar.error().message.find(one.part), std::string::npos) << grammar.error().message;
  }
}

TEST(GrammarRegex, ChoicesAreBytes) {
  const auto grammar = from_choice({"yes", "no", "日本"});
  ASSERT_TRUE(grammar.has_value());
  EXPECT_TRUE(testing::matches(*grammar, "yes"));
  EXPECT_TRUE(testing::matches(*grammar, "日本"));
  EXPECT_FALSE(testing::matches(*grammar, "日"));
  EXPECT_FALSE(from_choice({}).has_value());
}

}  // namespace
}  // namespace stoker::grammar
