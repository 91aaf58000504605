// Schemas keyword by keyword: documents that are valid and not, in the spelling of grammars, and
// what is refused, with its place.
#include "grammar/json_schema.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

using testing::matches;

Grammar grammar_or_die(const std::string& schema, const SchemaOptions& options = {}) {
  const auto json = Json::parse(schema);
  EXPECT_TRUE(json.has_value()) << schema;
  auto grammar = from_json_schema(*json, options);
  EXPECT_TRUE(grammar.has_value()) << schema << "\n" << grammar.error().message;
  if (!grammar) std::abort();
  return *std::move(grammar);
}

struct Case {
  const char* schema;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const Grammar grammar = grammar_or_die(one.schema);
    for (const std::string& text : one.yes)
      EXPECT_TRUE(matches(grammar, text)) << one.schema << " on " << text;
    for (const std::string& text : one.no)
      EXPECT_FALSE(matches(grammar, text)) << one.schema << " on " << text;
  }
}

TEST(GrammarSchema, Types) {
  check({
      {"true",
       {"1", "\"a\"", "{}", "[]", "null", "{\"a\":[1,{\"b\":null}]}"},
       {"", "a", "[1", "1 "}},
      {"{}", {"true", "[[]]"}, {"tru"}},
      {R"({"type": "null"})", {"null"}, {"0", "false"}},
      {R"({"type": "boolean"})", {"true", "false"}, {"null"}},
      {R"({"type": "integer"})", {"0", "-1", "120"}, {"01", "1.5", "1e2", "+1", "-", "\"1\""}},
      {R"({"type": "number"})",
       {"0", "-1.50", "1e5", "2.5E-3", "10"},
       {".5", "1.", "00", "1e", "NaN"}},
      {R"({"type": "string"})",
       {R"("")", R"("a\n\u00e9\ud83d\ude00\/")", "\"日本\"", "\"\x7F\""},
       {"\"", "\"a\n\"", R"("\ud800")", R"("\udc00\ud800")", R"("\x")", "\"\xE6\x97\"",
        "\"\xFF\""}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"1.5", "true"}},
      {R"({"type": "array"})", {"[]", "[1, \"a\"]", "[\n  1\n]"}, {"{}", "[1,]"}},
      {R"({"type": "object"})", {"{}", "{\"a\": {}}"}, {"[]", "{\"a\"}"}},
  });
}

TEST(GrammarSchema, Constants) {
  check({
      {R"({"enum": ["a", 1, null, [1, {"b": 2}]]})",
       {"\"a\"", "1", "null", "[1, {\"b\":2}]", "[\n 1,\n {\"b\": 2}\n]"},
       {"\"b\"", "2", "[1]"}},
      {R"({"const": "a\"\n"})", {R"("a\"\n")"}, {R"("a")"}},
      {R"({"type": "string", "enum": ["a", 1, "b"]})", {"\"a\"", "\"b\""}, {"1"}},
      {R"({"enum": [1, 5, 9], "minimum": 3})", {"5", "9"}, {"1"}},
      {R"({"enum": ["ab", "abc", "é"], "maxLength": 2})", {"\"ab\"", "\"é\""}, {"\"abc\""}},
      {R"({"allOf": [{"enum": [1, 2]}, {"enum": [2.0, 3]}]})", {"2"}, {"1", "3"}},
  });
}

TEST(GrammarSchema, Strings) {
  check({
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"日本語\"", R"("\u0041\n")", R"("😀\ud83d\ude00a")"},
       {"\"a\"", "\"abcd\"", "\"\""}},
      {R"({"type": "string", "minLength": 3})", {"\"abc\"", "\"abcdefgh\""}, {"\"ab\""}},
      {R"({"type": "string", "pattern": "^[a-z]+\\d$"})", {"\"ab1\""}, {"\"1\"", "\"ab1 \""}},
      {R"({"type": "string", "pattern": "b"})", {"\"abc\"", R"("\"b\n")"}, {"\"ac\""}},
      {R"({"type": "string", "pattern": "^\\S+$", "maxLength": 3})",
       {"\"abc\""},
       {"\"abcd\"", "\"a b\""}},
      {R"({"type": "string", "pattern": "^\"\\\\$"})", {R"("\"\\")"}, {R"(""\")"}},
      {R"({"type": "string", "format": "unknown"})", {"\"anything\""}, {"1"}},
      {R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-1-1\""}},
      {R"({"type": "string", "format": "date-time"})",
       {"\"2024-01-01T23:59:59Z\"", "\"2024-01-01T00:00:00.5+02:00\""},
       {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""}},
      {R"({"type": "string", "format": "ipv4"})",
       {"\"127.0.0.1\"", "\"255.255.255.255\""},
       {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.0.0.0\""}},
      {R"({"type": "string", "format": "ipv6"})",
       {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\"", "\"1:2:3:4:5:6:7::\"",
        "\"::ffff:1.2.3.4\"", "\"1:2:3:4:5::7:8\""},
       {"\":::\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"1:2:3:4:5:6:7:8:9\"",
        "\"1:2:3:4:5:6:7::8\"", "\"12345::\""}},
      {R"({"type": "string", "format": "uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567\""}},
      {R"({"type": "string", "format": "email"})",
       {"\"a.b+c@d-e.org\""},
       {"\"a@\"", "\".a@b\"", "\"a b@c\""}},
      {R"({"type": "string", "format": "duration"})",
       {"\"P1Y2M3DT4H5M6S\"", "\"PT1H\"", "\"P2W\""},
       {"\"P\"", "\"P1S\"", "\"PT\""}},
  });
}

TEST(GrammarSchema, Numbers) {
  check({
      {R"({"type": "integer", "minimum": 5, "maximum": 123})",
       {"5", "9", "10", "99", "123"},
       {"4", "124", "05", "-5", "1000"}},
      {R"({"type": "integer", "minimum": -12, "exclusiveMaximum": 3})",
       {"-12", "-1", "0", "2"},
       {"-13", "3", "10"}},
      {R"({"type": "integer", "maximum": -5})", {"-5", "-60"}, {"-4", "0", "5"}},
      {R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "99"}, {"0", "-0", "-1"}},
      {R"({"type": "integer", "minimum": 1.5, "maximum": 3.5})", {"2", "3"}, {"1", "4"}},
      {R"({"type": "number", "minimum": 0.5, "maximum": 1.25})",
       {"0.5", "0.50", "0.6", "1", "1.25", "1.2499", "1.250"},
       {"0.4", "0.49", "1.26", "1.2501", "0", "2", "-0.6"}},
      {R"({"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 0})",
       {"-0.5", "-0.01"},
       {"-1", "0", "-0", "-0.0", "0.1", "-1.1"}},
      {R"({"type": "number", "minimum": 1e2})", {"100", "100.5", "1000"}, {"99.9", "1"}},
      {R"({"type": "number", "minimum": 0})", {"0", "0.001", "12"}, {"-1", "-0.1"}},
      {R"({"type": "integer", "multipleOf": 5})", {"0", "10", "-15", "125"}, {"1", "12", "05"}},
      {R"({"type": "number", "multipleOf": 1})", {"3"}, {"3.5"}},
      {R"({"allOf": [{"minimum": 3}, {"minimum": 5, "type": "integer"}]})", {"5"}, {"4"}},
  });
}

TEST(GrammarSchema, Objects) {
  check({
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
           "required": ["b"], "additionalProperties": false})",
       {R"({"b":""})", R"({"a":1,"b":"x"})", R"({"a": 1, "b": "x", "c": [1]})",
        "{\n  \"b\": \"\",\n  \"c\": 1\n}"},
       {"{}", R"({"a":1})", R"({"b":"","a":1})", R"({"b":"","d":1})", R"({"b":"",})", R"({"b":1})",
        R"({"a":1"b":""})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "integer"}}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"x":true})", R"({"a":1})", R"({"abc":"x"})", R"({"":1})",
        R"({"\n":1})", R"({"日":1,"y":2})"},
       {R"({"ab":"x"})", R"({"x":1,"ab":"no"})", R"({"\u0061b":"x"})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a":1,"b":2})"},
       {R"({"a":"x"})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"type": "string"}})",
       {R"({"a":1,"b":"x","c":"y"})", R"({"b":"x"})"},
       {R"({"a":"x"})", R"({"b":1})"}},
      {R"({"type": "object", "required": ["x", "y"], "properties": {"y": {"type": "null"}}})",
       {R"({"y":null,"x":1})", R"({"y":null,"x":{},"z":2})"},
       {R"({"x":1,"y":null})", R"({"y":null})"}},
      {R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type": "object", "patternProperties": {"^n_": {"type": "integer"}, "^s_": {"type": "string"}}, "additionalProperties": false})",
       {"{}", R"({"n_a":1,"s_b":"x","n_":2})"},
       {R"({"n_a":"x"})", R"({"x":1})"}},
      {R"({"type": "object", "properties": {"n_1": {"minimum": 5}}, "patternProperties": {"^n_": {"type": "integer"}}})",
       {R"({"n_1":6,"n_2":1,"x":"y"})"},
       {R"({"n_1":4})", R"({"n_1":6.5})", R"({"n_2":"x"})"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 2}})",
       {"{}", R"({"ab":1})"},
       {R"({"A":1})", R"({"abc":1})"}},
      {R"({"type": "object", "properties": {"a": false, "b": {}}})",
       {R"({"b":1})", R"({"c":1})"},
       {R"({"a":1})"}},
      {R"({"type": "object", "properties": {"a\"/日": {"type": "null"}}, "required": ["a\"/日"]})",
       {R"({"a\"/日":null})"},
       {"{}"}},
  });
}

TEST(GrammarSchema, Arrays) {
  check({
      {R"({"type": "array", "items": {"type": "integer"}})",
       {"[]", "[1]", "[1,2, 3]"},
       {"[\"a\"]", "[1 2]"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[1,2]", "[1,2,3]"},
       {"[1]", "[]", "[1,2,3,4]"}},
      {R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]})",
       {"[]", "[\"a\"]", "[\"a\",1]", "[\"a\",1,null]"},
       {"[1]", "[\"a\",\"b\"]"}},
      {R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2})",
       {"[\"a\",1]"},
       {"[\"a\"]", "[\"a\",1,2]"}},
      {R"({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}, "minItems": 3, "maxItems": 4})",
       {"[\"a\",null,null]", "[\"\",null,null,null]"},
       {"[\"a\",null]", "[\"a\",null,null,null,null]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"type": "array", "uniqueItems": false})", {"[1,1]"}, {"[1,1"}},
  });
}

TEST(GrammarSchema, Combinations) {
  check({
      {R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}, false]})",
       {"1", "\"a\""},
       {"\"ab\"", "null"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"ab\""}, {"null"}},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k", "x"], "additionalProperties": false},
                     {"type": "object", "properties": {"k": {"const": "b"}, "y": {"type": "string"}}, "required": ["k"], "additionalProperties": false}]})",
       {R"({"k":"a","x":1})", R"({"k":"b"})", R"({"k": "b", "y": "z"})"},
       {R"({"k":"a"})", R"({"k":"b","x":1})", R"({"k":"c"})"}},
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}, "b": {"type": "null"}}}]})",
       {R"({"a":3})", R"({"a":4,"b":null,"c":1})"},
       {R"({"a":2})", R"({"a":3,"b":1})"}},
      {R"({"type": "object", "properties": {"a": {}}, "allOf": [{"additionalProperties": false, "properties": {"a": {"type": "integer"}}}]})",
       {R"({"a":1})", "{}"},
       {R"({"b":1})"}},
      {R"({"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 1}]})",
       {"\"abc\"", "\"b\""},
       {"\"bc\"", "1"}},
      {R"({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 4})",
       {"4"},
       {"3", "\"a\""}},
      {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
           "required": ["v"], "additionalProperties": false}}, "$ref": "#/$defs/node"})",
       {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1,"next":{"v":"x"}})", R"({"v":1,"next":{"v":2})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"definitions": {"a/b ~": {"const": 1}}, "$ref": "#/definitions/a~1b%20~0"})",
       {"1"},
       {"2"}},
  });
}

TEST(GrammarSchema, Spelling) {
  const Grammar compact = grammar_or_die(
      R"({"type": "object", "properties": {"a": {"type": "array"}}})", {.any_whitespace = false});
  EXPECT_TRUE(matches(compact, R"({"a": [1, 2], "b": {}})"));
  EXPECT_FALSE(matches(compact, R"({"a":[1, 2]})"));
  EXPECT_FALSE(matches(compact, R"({ "a": []})"));
  const Grammar closed =
      grammar_or_die(R"({"type": "object", "properties": {"a": {}, "b": {"type": "object"}}})",
                     {.disable_additional_properties = true});
  EXPECT_TRUE(matches(closed, R"({"a":1,"b":{"c":2}})"));
  EXPECT_FALSE(matches(closed, R"({"a":1,"c":2})"));
  const auto any = from_json_object();
  ASSERT_TRUE(any.has_value());
  EXPECT_TRUE(matches(*any, "{\n\t\"a\" :1}") == false);
  EXPECT_TRUE(matches(*any, "{\n\t\"a\": [\n" + std::string(64, ' ') + "1\n]\n}"));
  EXPECT_FALSE(matches(*any, "{\n" + std::string(65, ' ') + "}"));
  EXPECT_FALSE(matches(*any, "{  }"));
  EXPECT_FALSE(matches(*any, "[]"));
}

TEST(GrammarSchema, RefusesWithThePointer) {
  struct Refused {
    const char* schema;
    ErrorCode code;
    const char* part;
  };
  const Refused cases[] = {
      {R"({"not": {}})", ErrorCode::kUnsupported, "#/not"},
      {R"({"properties": {"a/b": {"if": {}}}})", ErrorCode::kUnsupported, "#/properties/a~1b/if"},
      {R"({"items": {"contains": {}}})", ErrorCode::kUnsupported, "#/items/contains"},
      {R"({"dependentRequired": {}})", ErrorCode::kUnsupported, "#/dependentRequired"},
      {R"({"unevaluatedProperties": false})", ErrorCode::kUnsupported, "#/unevaluatedProperties"},
      {R"({"anyOf": [{}, {"mistyped": 1}]})", ErrorCode::kUnsupported, "#/anyOf/1/mistyped"},
      {R"({"uniqueItems": true})", ErrorCode::kUnsupported, "#/uniqueItems"},
      {R"({"multipleOf": 0.1})", ErrorCode::kUnsupported, "#/multipleOf"},
      {R"({"multipleOf": 0})", ErrorCode::kInvalidArgument, "#/multipleOf"},
      {R"({"type": "strnig"})", ErrorCode::kInvalidArgument, "#/type"},
      {R"({"minLength": -1})", ErrorCode::kInvalidArgument, "#/minLength"},
      {R"({"minimum": "1"})", ErrorCode::kInvalidArgument, "#/minimum"},
      {R"({"required": "a"})", ErrorCode::kInvalidArgument, "#/required"},
      {R"({"properties": []})", ErrorCode::kInvalidArgument, "#/properties"},
      {R"({"properties": {"a": 1}})", ErrorCode::kInvalidArgument, "#/properties/a"},
      {R"({"anyOf": []})", ErrorCode::kInvalidArgument, "#/anyOf"},
      {"{\"pattern\": \"(?=a)\"}", ErrorCode::kUnsupported, "#/pattern"},
      {R"({"$ref": "other.json"})", ErrorCode::kUnsupported, "#/$ref"},
      {R"({"$ref": "#/$defs/a"})", ErrorCode::kInvalidArgument, "#/$ref"},
      {R"({"$ref": "#"})", ErrorCode::kInvalidArgument, "refers to itself"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       ErrorCode::kInvalidArgument, "schema at #: no value"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", ErrorCode::kInvalidArgument,
       "#/anyOf: this schema refers to itself"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", ErrorCode::kUnsupported,
       "#/oneOf"},
      {R"({"items": [{}]})", ErrorCode::kUnsupported, "#/items"},
      {"false", ErrorCode::kInvalidArgument, "schema at #: no value"},
      {R"({"type": "integer", "minimum": 3, "maximum": 2})", ErrorCode::kInvalidArgument,
       "schema at #"},
      {R"({"type": "object", "properties": {"a": {"type": "string", "enum": [1]}}, "required": ["a"]})",
       ErrorCode::kInvalidArgument, "#/properties/a"},
      {R"({"type": "array", "items": false, "minItems": 1})", ErrorCode::kInvalidArgument,
       "schema at #"},
      {R"({"allOf": [{"type": "string"}, {"type": "null"}]})", ErrorCode::kInvalidArgument,
       "#/allOf/1"},
      {R"({"type": "object", "properties": {"a": {}}, "minProperties": 1})",
       ErrorCode::kUnsupported, "#/minProperties"},
      {R"({"patternProperties": {"a": {}, "b": {}}})", ErrorCode::kUnsupported,
       "#/patternProperties/b"},
      {"[]", ErrorCode::kInvalidArgument, "schema at #"},
  };
  for (const Refused& one : cases) {
    const auto grammar = from_json_schema(*Json::parse(one.schema));
    ASSERT_FALSE(grammar.has_value()) << one.schema;
    EXPECT_EQ(grammar.error().code, one.code) << one.schema << grammar.error().message;
    EXPECT_NE(grammar.error().message.find(one.part), std::string::npos) << one.schema << "\n"
                                                                         << grammar.error().message;
  }
}

TEST(GrammarSchema, IgnoresAnnotations) {
  check(
      {{R"({"$schema": "x", "$id": "y", "title": "t", "description": "d", "default": 1, "examples": [2], "$comment": "c",
              "deprecated": true, "readOnly": true, "writeOnly": false, "x-any": {}, "type": "null"})",
        {"null"},
        {"1"}}});
}

}  // namespace
}  // namespace stoker::grammar
