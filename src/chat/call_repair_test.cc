#include "chat/call_repair.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::chat {
namespace {

TEST(CallRepair, WrappedArguments) {
  const Json schema = *Json::parse(R"({"properties":{"a":{},"b":{}}})");
  EXPECT_EQ(unwrapped_arguments(R"({"arguments": {"a": 1, "b":[2]}})", schema),
            R"({"a": 1, "b":[2]})");
  EXPECT_EQ(unwrapped_arguments(R"({"input": { "b": "x" } })", schema), R"({ "b": "x" } )");
  EXPECT_EQ(unwrapped_arguments(R"({"input": {}})", schema), "{}");
}

TEST(CallRepair, OthersStayAsTheyAre) {
  const Json schema = *Json::parse(R"({"properties":{"a":{},"input":{}}})");
  for (const std::string arguments :
       {R"({"a": {"a": 1}})", R"({"input": {"a": 1}})", R"({"arguments": {"c": 1}})",
        R"({"arguments": "{\"a\": 1}"})", R"({"arguments": {"a": 1}, "a": 2})",
        R"({"arguments": {"a": 1}, "arguments": {"a": 2}})", R"({"arguments": [1]})", "{}", "",
        R"({"arguments": )"}) {
    EXPECT_EQ(unwrapped_arguments(arguments, schema), arguments);
  }
  const std::string wrapped = R"({"arguments": {"a": 1}})";
  EXPECT_EQ(unwrapped_arguments(wrapped, *Json::parse(R"({"type":"object"})")), wrapped);
  EXPECT_EQ(unwrapped_arguments(wrapped, Json()), wrapped);
}

}  // namespace
}  // namespace stoker::chat
