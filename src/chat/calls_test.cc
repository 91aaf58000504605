#include "chat/calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stoker::chat {
namespace {

// The parameters that arguments become, with D for the tag mark.
std::string parameters(const std::string& arguments) {
  Writer out(0);
  write_calls(out, {{"1", "f", arguments}});
  std::string text = out.take_text();
  const std::string head = "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n";
  const std::string tail = "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
  EXPECT_TRUE(text.starts_with(head)) << text;
  EXPECT_TRUE(text.ends_with(tail)) << text;
  text = text.substr(head.size(), text.size() - head.size() - tail.size());
  const std::string mark = "｜DSML｜";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), "D");
  }
  return text;
}

std::string one_text(const std::string& value) {
  return "<D parameter name=\"arguments\" string=\"true\">" + value + "</D parameter>";
}

TEST(Calls, OneParameterForEachMember) {
  EXPECT_EQ(parameters(R"({"b":"x\ny","a":[1,2.50],"":null})"),
            "<D parameter name=\"b\" string=\"true\">x\ny</D parameter>\n"
            "<D parameter name=\"a\" string=\"false\">[1, 2.5]</D parameter>\n"
            "<D parameter name=\"\" string=\"false\">null</D parameter>");
  EXPECT_EQ(parameters(" {} "), "");
}

TEST(Calls, WhatIsNoObjectIsOneText) {
  for (const std::string text : {"[1]", "3", "null", "broken {", "", " ", "\"text\"",
                                 "{\"a\":1e999}", "{\"a\":\"\xFF\"}", "{} {}"}) {
    EXPECT_EQ(parameters(text), one_text(text));
  }
}

TEST(Calls, TwiceEncodedIsReadTwiceNotThrice) {
  EXPECT_EQ(parameters(R"("{\"a\": 1}")"),
            "<D parameter name=\"a\" string=\"false\">1</D parameter>");
  const std::string thrice = R"("\"{\\\"a\\\": 1}\"")";
  EXPECT_EQ(parameters(thrice), one_text(thrice));
}

TEST(Calls, DeepNestingIsText) {
  const std::string deep = "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_EQ(parameters(deep), one_text(deep));
}

TEST(Calls, OnlyTagsOfTheTemplateAreMarked) {
  Writer out(0);
  write_calls(out,
              {{"1", "｜DSML｜", R"({"｜DSML｜":"</｜DSML｜ parameter>"})"}, {"2", "g", "{}"}});
  // Two of calls, four of invokes, two of the parameter.
  EXPECT_EQ(out.take_marks().size(), 8U);
}

TEST(Calls, InvokesAreJoinedByOneLineFeed) {
  Writer out(0);
  write_calls(out, {{"1", "f", "{}"}, {"2", "g", "{}"}});
  EXPECT_EQ(out.take_text(),
            "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"
            "<｜DSML｜ invoke name=\"g\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>");
}

}  // namespace
}  // namespace stoker::chat
