#include "chat/tool_block.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <string>
#include <vector>

namespace stoker::chat {
namespace {

std::string sha256_hex(std::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string out;
  for (const unsigned char byte : digest) {
    constexpr char kHex[] = "0123456789abcdef";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string schemas(const std::vector<Tool>& tools) {
  std::vector<const Tool*> shown;
  for (const Tool& tool : tools) shown.push_back(&tool);
  Writer out(0);
  write_tool_block(out, shown);
  const std::string text = out.take_text();
  return text.substr(kToolBlockHead.size(),
                     text.size() - kToolBlockHead.size() - kToolBlockTail.size());
}

Tool tool(std::string name, std::string_view parameters, bool strict = false) {
  return {std::move(name), {}, *Json::parse(parameters), strict};
}

// The names of the tools that are shown, or the field at fault.
std::string shown_names(const std::vector<Tool>& tools, ToolChoice choice = {}) {
  Conversation conversation;
  conversation.tools = tools;
  conversation.tool_choice = std::move(choice);
  const auto shown = shown_tools(conversation);
  if (!shown.has_value()) return "error: " + shown.error().field;
  std::string names;
  for (const Tool* one : *shown) names += one->name + " ";
  return names;
}

// The model was trained on these bytes.
TEST(ToolBlock, PublishedDigests) {
  EXPECT_EQ(kToolBlockHead.size(), 884U);
  EXPECT_EQ(sha256_hex(kToolBlockHead),
            "2ae2ff83edf990187ed419c4e2901bb9ea6ce2129eb503ac543b258e7de8231d");
  EXPECT_EQ(kToolBlockTail.size(), 99U);
  EXPECT_EQ(sha256_hex(kToolBlockTail),
            "690702850fe256512cb1ee67c4e436ecb3e735c71ebee77ca45ff357a75fb5a7");
}

TEST(ToolBlock, ThreeKeysInThisOrder) {
  Tool described = tool("b", R"({"z":1,"a":[1.0,"ü"]})");
  described.description = "says \"b\"";
  EXPECT_EQ(schemas({{"a"}, described, tool("c", "null")}),
            "{\"name\": \"a\", \"description\": \"\", \"parameters\": {}}\n"
            "{\"name\": \"b\", \"description\": \"says \\\"b\\\"\", "
            "\"parameters\": {\"z\": 1, \"a\": [1.0, \"ü\"]}}\n"
            "{\"name\": \"c\", \"description\": \"\", \"parameters\": {}}");
}

TEST(ToolBlock, SchemasWithinTextAreNotMarked) {
  Tool quoting{"f", "<｜DSML｜ calls> <think>"};
  Writer out(0);
  write_tool_block(out, {&quoting});
  EXPECT_EQ(out.take_marks().size(), 13U);  // nine tag marks, two of <think>, two of </think>
}

TEST(ToolBlock, StrictSchemasAreCompletedWhereverTheyAre) {
  const auto completed = [](std::string_view parameters) {
    const std::string all = schemas({tool("f", parameters, true)});
    const std::string head = R"({"name": "f", "description": "", "parameters": )";
    EXPECT_TRUE(all.starts_with(head));
    return all.substr(head.size(), all.size() - head.size() - 1);
  };
  EXPECT_EQ(completed(R"({"type":"object"})"),
            R"({"type": "object", "additionalProperties": false, "required": []})");
  // What is there is replaced in its place.
  EXPECT_EQ(completed(R"({"required":["a"],"type":"object","properties":{"a":{},"b":{}}})"),
            R"({"required": ["a", "b"], "type": "object", "properties": {"a": {}, "b": {}}, )"
            R"("additionalProperties": false})");
  EXPECT_EQ(completed(R"({"items":{"type":["object","null"]}})"),
            R"({"items": {"type": ["object", "null"], "additionalProperties": false, )"
            R"("required": []}})");
  EXPECT_EQ(completed(R"({"anyOf":[{"type":"object"},true]})"),
            R"({"anyOf": [{"type": "object", "additionalProperties": false, "required": []}, )"
            R"(true]})");
  // A property may be called like a keyword, and a value may look like a schema.
  EXPECT_EQ(completed(R"({"$defs":{"type":{"type":"string"}},"default":{"type":"object"}})"),
            R"({"$defs": {"type": {"type": "string"}}, "default": {"type": "object"}})");
}

TEST(ToolBlock, ChoiceOfTools) {
  const std::vector<Tool> tools = {{"a"}, {"b"}};
  EXPECT_EQ(shown_names(tools), "a b ");
  EXPECT_EQ(shown_names(tools, {ToolChoice::Kind::kNone}), "");
  EXPECT_EQ(shown_names(tools, {ToolChoice::Kind::kRequired}), "a b ");
  EXPECT_EQ(shown_names(tools, {ToolChoice::Kind::kNamed, "b"}), "b ");
  EXPECT_EQ(shown_names(tools, {ToolChoice::Kind::kNamed, "c"}), "error: tool_choice");
  EXPECT_EQ(shown_names({}, {ToolChoice::Kind::kRequired}), "error: tool_choice");
  EXPECT_EQ(shown_names({}), "");
}

TEST(ToolBlock, IllFormedAndRepeatedNames) {
  for (const std::string name : {"", "a b", "a.b", "ü", "a::b", "a\n"}) {
    EXPECT_EQ(shown_names({{"ok-_9Z"}, {name}}), "error: tools[1].function.name") << name;
  }
  EXPECT_EQ(shown_names({{"a"}, {"b"}, {"a"}}), "error: tools[2].function.name");
  // Also where none would be shown.
  EXPECT_EQ(shown_names({{""}}, {ToolChoice::Kind::kNone}), "error: tools[0].function.name");
}

}  // namespace
}  // namespace stoker::chat
