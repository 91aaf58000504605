// Blocks of tool calls: their three forms, and parameters from schemas.
#include "grammar/calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

using testing::matches;

const char* const kSchema = R"({"type": "object", "properties": {
  "city": {"type": "string"},
  "days": {"type": "integer", "minimum": 1, "maximum": 14},
  "unit": {"enum": ["C", "F", null]},
  "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array", "items": {"type": "string"}}]}},
  "required": ["city"], "additionalProperties": false})";

std::string parameter(const std::string& name, bool is_string, const std::string& value) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") +
         "\">" + value + "</｜DSML｜ parameter>";
}

std::string invoke(const std::string& name, const std::string& parameters) {
  return "<｜DSML｜ invoke name=\"" + name + "\">\n" + parameters + "\n</｜DSML｜ invoke>\n";
}

std::string block(const std::string& invokes) {
  return "<｜DSML｜ calls>\n" + invokes + "</｜DSML｜ calls>";
}

class GrammarCalls : public ::testing::Test {
 protected:
  GrammarCalls()
      : schema_(*Json::parse(kSchema)), tools_({{"weather", &schema_}, {"now", nullptr}}) {}

  Grammar make(const CallOptions& options = {}) {
    auto grammar = from_calls(tools_, options);
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
    return *std::move(grammar);
  }

  Json schema_;
  std::vector<Tool> tools_;
};

TEST_F(GrammarCalls, ParametersFollowTheSchema) {
  const Grammar grammar = make();
  const auto allows = [&](const std::string& parameters) {
    return matches(grammar, "\n\n" + block(invoke("weather", parameters)));
  };
  const std::string city = parameter("city", true, "São \"Paulo\" <b> </｜DSM");
  EXPECT_TRUE(allows(city));
  EXPECT_TRUE(allows(city + "\n" + parameter("days", false, "14")));
  EXPECT_TRUE(
      allows(city + "\n" + parameter("days", false, "1") + "\n" + parameter("unit", true, "F")));
  EXPECT_TRUE(allows(city + "\n" + parameter("unit", false, "null")));
  EXPECT_TRUE(allows(city + "\n" + parameter("note", true, "日本語")));
  EXPECT_TRUE(allows(city + "\n" + parameter("note", false, R"(["a", "b"])")));
  EXPECT_FALSE(allows(city + "\n" + parameter("note", true, "long")));
  EXPECT_FALSE(allows(city + "\n" + parameter("days", false, "15")));
  EXPECT_FALSE(allows(city + "\n" + parameter("days", true, "1")));
  EXPECT_FALSE(allows(city + "\n" + parameter("unit", true, "K")));
  EXPECT_FALSE(allows(city + "\n" + parameter("unit", true, "null")));
  EXPECT_FALSE(allows(parameter("days", false, "1")));
  EXPECT_FALSE(allows(parameter("days", false, "1") + "\n" + city));
  EXPECT_FALSE(allows(city + "\n" + parameter("other", true, "x")));
  EXPECT_FALSE(allows(city + parameter("days", false, "1")));
  EXPECT_FALSE(allows(parameter("city", true, "a</｜DSML｜ b")));
  EXPECT_FALSE(allows(parameter("city", true, "\xE6\x97")));
}

TEST_F(GrammarCalls, WithoutASchemaAnyParametersDo) {
  const Grammar grammar = make();
  EXPECT_TRUE(matches(grammar, "\n\n" + block(invoke("now", ""))));
  EXPECT_TRUE(matches(grammar, "\n\n" + block(invoke("now", parameter("a", true, "x") + "\n" +
                                                                parameter("b", false, "{}")))));
  EXPECT_FALSE(matches(grammar, "\n\n" + block(invoke("now", parameter("a", false, "\"x\"")))));
  EXPECT_FALSE(matches(grammar, "\n\n" + block(invoke("later", ""))));
  EXPECT_FALSE(matches(grammar, "\n\n" + block("")));
}

TEST_F(GrammarCalls, HasThreeForms) {
  const std::string two = invoke("now", "") + invoke("now", "");
  EXPECT_TRUE(matches(make(), "\n\n" + block(two)));
  EXPECT_FALSE(matches(make(), block(two)));
  EXPECT_FALSE(matches(make(), ""));

  const Grammar opened = make({.form = CallForm::kOpenedBlock});
  EXPECT_TRUE(matches(opened, two + "</｜DSML｜ calls>"));
  EXPECT_FALSE(matches(opened, block(two)));

  const Grammar one = make({.form = CallForm::kOpenedBlock, .exactly_one = true});
  EXPECT_TRUE(matches(one, invoke("now", "") + "</｜DSML｜ calls>"));
  EXPECT_FALSE(matches(one, two + "</｜DSML｜ calls>"));

  const Grammar triggered = make({.form = CallForm::kTriggered});
  EXPECT_TRUE(matches(triggered, ""));
  EXPECT_TRUE(matches(triggered, "Hello <｜DSM 日本\n"));
  EXPECT_TRUE(matches(triggered, "Let me see.\n\n" + block(two)));
  EXPECT_TRUE(matches(triggered, block(two)));
  EXPECT_FALSE(matches(triggered, "a " + block(two) + " b"));
  EXPECT_FALSE(matches(triggered, "a <｜DSML｜ b"));
  EXPECT_FALSE(matches(triggered, "a <｜DSML｜ calls>\n"));
  EXPECT_FALSE(matches(triggered, "a\n\n<|DSML| calls>")) << "what readers take for a block too";
  const Grammar free = *text_without_calls();
  EXPECT_TRUE(matches(free, "") && matches(free, "a <｜DSM <|DSM"));
  EXPECT_FALSE(matches(free, "a <｜DSML｜") || matches(free, "<|DSML|"));
}

TEST_F(GrammarCalls, CombinesWithAnObjectBehindLineFeeds) {
  const auto both = either(*from_json_object(), make({.form = CallForm::kBlock}));
  ASSERT_TRUE(both.has_value());
  const auto grammar = after_line_feeds(*both);
  ASSERT_TRUE(grammar.has_value());
  EXPECT_TRUE(matches(*grammar, "{\"a\": 1}"));
  EXPECT_TRUE(matches(*grammar, "\n{}"));
  EXPECT_TRUE(matches(*grammar, "\n\n" + block(invoke("now", ""))));
  EXPECT_TRUE(matches(*grammar, "\n\n\n" + block(invoke("now", ""))));
  EXPECT_FALSE(matches(*grammar, "[1]"));
}

TEST_F(GrammarCalls, NamesTheToolInErrors) {
  const Json bad = *Json::parse(R"({"type": "object", "properties": {"a": {"not": {}}}})");
  tools_.push_back({"bad", &bad});
  auto grammar = from_calls(tools_);
  ASSERT_FALSE(grammar.has_value());
  EXPECT_EQ(grammar.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(grammar.error().message.find("tools[2]: schema at #/properties/a/not"),
            std::string::npos)
      << grammar.error().message;
  tools_[2] = {"b\"d", nullptr};
  EXPECT_FALSE(from_calls(tools_).has_value());
  EXPECT_FALSE(from_calls({}).has_value());
  const Json no_object = *Json::parse(R"({"type": "array"})");
  tools_[2] = {"list", &no_object};
  EXPECT_FALSE(from_calls(tools_).has_value());
}

}  // namespace
}  // namespace stoker::grammar
