#include "chat/python_json.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::chat {
namespace {

std::string written(std::string_view text) {
  const auto json = Json::parse(text);
  if (!json.has_value()) return "error: " + json.error().message;
  std::string out;
  append_python_json(out, *json);
  return out;
}

TEST(PythonJson, SeparatorsAndOrder) {
  EXPECT_EQ(written(R"({"b":[1,2,{"x":null}],"a":{},"c":[],"":true})"),
            R"({"b": [1, 2, {"x": null}], "a": {}, "c": [], "": true})");
  EXPECT_EQ(written(R"({"k":1,"o":2,"k":3})"), R"({"k": 3, "o": 2})");
}

TEST(PythonJson, IntegersAreUnchanged) {
  for (const std::string number :
       {"0", "-1", "9007199254740993", "18446744073709551615", "-9223372036854775808",
        "123456789012345678901234567890", "-99999999999999999999999"}) {
    EXPECT_EQ(written(number), number);
  }
  EXPECT_EQ(written("-0"), "0");
}

// As json.dumps(json.loads(x)) of Python 3.11.
TEST(PythonJson, OtherNumbersAsPythonSpellsThem) {
  const std::pair<const char*, const char*> rows[] = {
      {"1.0", "1.0"},
      {"1.50", "1.5"},
      {"1E5", "100000.0"},
      {"1e30", "1e+30"},
      {"1e-7", "1e-07"},
      {"0.0001", "0.0001"},
      {"0.00012345", "0.00012345"},
      {"0.00001", "1e-05"},
      {"1.25e-5", "1.25e-05"},
      {"123456789012345.6", "123456789012345.6"},
      {"1e15", "1000000000000000.0"},
      {"9999999999999998.0", "9999999999999998.0"},
      {"1e16", "1e+16"},
      {"12345678901234567.0", "1.2345678901234568e+16"},
      {"100000000000000000000.0", "1e+20"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"5e-324", "5e-324"},
      {"0.1", "0.1"},
      {"-0.5e3", "-500.0"},
      {"0.0", "0.0"},
      {"-0.0", "-0.0"},
      {"-0e7", "-0.0"},
      {"1e-400", "0.0"},
      {"-1e-400", "-0.0"},
      {"2.5", "2.5"},
      {"1e22", "1e+22"},
      {"0.30000000000000004", "0.30000000000000004"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(written(text), expected) << text;
}

TEST(PythonJson, OnlyWhatJsonDemandsIsEscaped) {
  EXPECT_EQ(written(R"("\u0001\b\f\n\r\t\u001f\u007f\/\"\\é\ud83d\ude00\u2028")"),
            "\"\\u0001\\b\\f\\n\\r\\t\\u001f\x7f/\\\"\\\\é😀\u2028\"");
}

}  // namespace
}  // namespace stoker::chat
