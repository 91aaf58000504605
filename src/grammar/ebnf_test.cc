// EBNF: what the notation means, and where an error is.
#include "grammar/ebnf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

using testing::matches;

TEST(GrammarEbnf, ReadsTheNotation) {
  struct Case {
    const char* grammar;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const Case cases[] = {
      {"root ::= \"a\" 'b' # comment\n", {"ab"}, {"a", "ab "}},
      {"root ::= \"a\"\n  | \"b\" // more\n other ::= \"c\"", {"a", "b"}, {"c"}},
      {"root ::= x{2} x{0,1} [0-9]{1,}\nx ::= \"x\"", {"xx1", "xxx123"}, {"x1", "xxxx1", "xx"}},
      {"root ::= (\"a\" | b)* c?\nb ::= \"b\"\nc ::= [^a-b\\n]",
       {"", "abab", "ab日"},
       {"abcc", "\n"}},
      {"root ::= \"\\\"\\x41\\u65e5\\U0001F600\\n\" .", {"\"A日😀\nx"}, {"\"A日😀\n"}},
      {"root ::= a-b_c\na-b_c ::= \"\"", {""}, {"a"}},
      {"root ::= root \"+\" num | num\nnum ::= [0-9]+", {"1", "1+23+4"}, {"+1", "1+", ""}},
      {"root ::= \"[\" (root (\",\" root)*)? \"]\"", {"[]", "[[],[[]]]"}, {"[", "[,]"}},
      {"root ::= [\\]\\-a]+", {"]-a"}, {"b"}},
      {"root::=\"a\"\nunused::=unused \"x\"", {"a"}, {""}},
  };
  for (const Case& one : cases) {
    const auto grammar = from_ebnf(one.grammar);
    ASSERT_TRUE(grammar.has_value()) << one.grammar << ": " << grammar.error().message;
    for (const std::string& text : one.yes)
      EXPECT_TRUE(matches(*grammar, text)) << one.grammar << " on " << text;
    for (const std::string& text : one.no)
      EXPECT_FALSE(matches(*grammar, text)) << one.grammar << " on " << text;
  }
}

TEST(GrammarEbnf, SaysWhereItStops) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a rule \"root\""},
      {"start ::= \"a\"", "a rule \"root\""},
      {"root ::= \"a", "closing quote at byte 11"},
      {"root ::= other", "\"other\" is not at byte 9"},
      {"root ::= \"a\"\nroot ::= \"b\"", "\"root\" is at byte 13"},
      {"root = \"a\"", "::= at byte 5"},
      {"root ::= (\"a\"", ") at byte 13, found the end"},
      {"root ::= \"a\"{3,1}", "bounds in order"},
      {"root ::= [b-a]", "range"},
      {"root ::= \"\\q\"", "an escape at byte 11"},
      {"root ::= \"\\uD800\"", "a code point"},
      {"root ::= *", "a text, a class, a group or a name at byte 9"},
      {"root ::= \"a\"{9999999}", "at most 100000"},
      {"root ::= \xFF", "UTF-8"},
  };
  for (const auto& [text, part] : cases) {
    const auto grammar = from_ebnf(text);
    ASSERT_FALSE(grammar.has_value()) << text;
    EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(grammar.error().message.find(part), std::string::npos) << grammar.error().message;
  }
  const std::string deep = "root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')');
  EXPECT_FALSE(from_ebnf(deep).has_value());
}

}  // namespace
}  // namespace stoker::grammar
