// Bodies of Anthropic's interface: what the engine is asked, and what is refused with its place.
#include "server/anthropic_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "server/turn_lines.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kQuestion = R"([{"role":"user","content":"q"}])";

Result<ParsedRequest> parse_body(const std::string& members, Route route = Route::kMessages) {
  return parse_request(route, "{" + members + "}", {"demo"});
}

Result<ParsedRequest> parse_asking(const std::string& members) {
  return parse_body(R"("max_tokens":9,"messages":)" + std::string(kQuestion) +
                    (members.empty() ? "" : ",") + members);
}

// The prompt of a body that is accepted.
ChatPrompt prompt_of(const std::string& messages, const std::string& members = "") {
  const auto parsed = parse_body(R"("max_tokens":9,"messages":)" + messages +
                                 (members.empty() ? "" : ",") + members);
  EXPECT_TRUE(parsed.has_value()) << messages << ": " << parsed.error().message;
  if (!parsed) return {};
  EXPECT_EQ(parsed->requests.size(), 1U);
  return std::get<ChatPrompt>(parsed->requests.front().prompt);
}

TEST(AnthropicReader, FieldsReachTheRequest) {
  const auto parsed = parse_asking(
      R"("model":"demo","temperature":0.5,"top_p":0.9,"top_k":40,"stream":true,)"
      R"("stop_sequences":["END",""],"metadata":{"user_id":"u"},"service_tier":"auto",)"
      R"("cache_control":{"type":"ephemeral"},"zebra":1)");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->form.route, Route::kMessages);
  EXPECT_EQ(parsed->form.model, "demo");
  EXPECT_TRUE(parsed->form.stream);
  EXPECT_THAT(parsed->unknown_fields, ElementsAre("zebra"));
  const Request& request = parsed->requests.front();
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_THAT(request.stop, ElementsAre("END"));
}

TEST(AnthropicReader, TheSystemPromptStandsInFrontWhereverItsFieldIs) {
  EXPECT_THAT(turn_lines(prompt_of(kQuestion, R"("system":"Be terse.")")),
              ElementsAre("system Be terse.", "user q"));
  EXPECT_THAT(
      turn_lines(prompt_of(
          kQuestion,
          R"("system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}])")),
      ElementsAre("system a b", "user q"));
  EXPECT_THAT(turn_lines(prompt_of(kQuestion, R"("system":[])")), ElementsAre("user q"));
  const auto parsed =
      parse_body(R"("system":"s","max_tokens":1,"messages":)" + std::string(kQuestion));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_THAT(turn_lines(std::get<ChatPrompt>(parsed->requests.front().prompt)),
              ElementsAre("system s", "user q"));
}

TEST(AnthropicReader, BlocksBecomeMessages) {
  const ChatPrompt prompt = prompt_of(R"([
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "?"},
        {"type": "text", "text": "Well,"},
        {"type": "tool_use", "id": "t1", "name": "tide", "input": {"at": "Hull", "n": 1.50}},
        {"type": "tool_use", "id": "t2", "name": "now", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t2", "content": "12:00"},
        {"type": "tool_result", "tool_use_id": "t1",
         "content": [{"type": "text", "text": "3.1"}, {"type": "text", "text": "m"}]},
        {"type": "tool_result", "tool_use_id": "t3"},
        {"type": "text", "text": "and?"}]},
      {"role": "system", "content": "In French."}])");
  EXPECT_THAT(turn_lines(prompt),
              ElementsAre("user a b",
                          R"(assistant Well, [hm] (t1 tide {"at":"Hull","n":1.50}) (t2 now {}))",
                          "tool 12:00 <t2>", "tool 3.1 m <t1>", "tool <t3>", "user and?",
                          "system In French."));
  EXPECT_FALSE(prompt.continue_last);
}

TEST(AnthropicReader, MessagesOfTheAssistantInARowAreOneTurn) {
  EXPECT_THAT(turn_lines(prompt_of(R"([
      {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "b"}, {"type": "thinking", "thinking": "c"},
                                        {"type": "text", "text": ""}, {"type": "text", "text": "d"}]},
      {"role": "user", "content": []}])")),
              ElementsAre("user q", "assistant a d [b\n\nc]", "user"));
}

TEST(AnthropicReader, AFailedToolIsToldAsOne) {
  const auto result_of = [](const std::string& members) {
    return turn_lines(
        prompt_of(R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",)" +
                  members + "}]}]"))[0];
  };
  EXPECT_EQ(result_of(R"("is_error":true,"content":"no such file")"),
            "tool Error: no such file <t>");
  EXPECT_EQ(result_of(R"("is_error":true,"content":"Error 7")"), "tool Error 7 <t>");
  EXPECT_EQ(result_of(R"("is_error":true)"), "tool Error <t>");
  EXPECT_EQ(result_of(R"("is_error":false,"content":"x")"), "tool x <t>");
}

TEST(AnthropicReader, TheAnswerGoesOnWithWhatTheAssistantBegan) {
  const auto continues = [](const std::string& content) {
    return prompt_of(R"([{"role":"user","content":"q"},{"role":"assistant","content":)" + content +
                     "}]")
        .continue_last;
  };
  EXPECT_TRUE(continues(R"("The answer is")"));
  EXPECT_TRUE(continues("[]"));
  EXPECT_FALSE(continues(R"([{"type":"tool_use","id":"t","name":"n","input":{}}])"));
}

TEST(AnthropicReader, TheBudgetBoundsThinking) {
  const auto budget = [](const std::string& tokens) {
    return parse_asking(R"("thinking":{"type":"enabled","budget_tokens":)" + tokens + "}")
        ->requests[0]
        .thinking_token_budget;
  };
  EXPECT_EQ(budget("1024"), 1024);
  EXPECT_EQ(budget("2147483647"), 2147483647);
  EXPECT_EQ(budget("2147483648"), std::nullopt) << "no answer has more";
  EXPECT_EQ(budget("null"), std::nullopt);
}

TEST(AnthropicReader, ThinkingIsOffUnlessItIsAskedFor) {
  EXPECT_EQ(prompt_of(kQuestion).thinking, "disabled");
  EXPECT_EQ(prompt_of(kQuestion, R"("thinking":null)").thinking, "disabled");
  EXPECT_EQ(prompt_of(kQuestion, R"("output_config":{"effort":"max"})").thinking, "disabled");
  for (const std::string type : {"enabled", "disabled", "adaptive"})
    EXPECT_EQ(prompt_of(kQuestion, R"("thinking":{"type":")" + type + "\"}").thinking, type);
  const ChatPrompt prompt =
      prompt_of(kQuestion, R"("thinking":{"type":"enabled","budget_tokens":1024},)"
                           R"("output_config":{"effort":"low","format":null},)"
                           R"("context_management":{"edits":[{"type":"clear_thinking_20251015",)"
                           R"("keep":{"type":"all"}}]})");
  EXPECT_EQ(prompt.thinking, "enabled");
  EXPECT_EQ(prompt.reasoning_effort, "low");
  EXPECT_TRUE(prompt.keep_reasoning);
  EXPECT_FALSE(prompt_of(kQuestion).keep_reasoning);
  const auto shows = [](const std::string& display) {
    return parse_asking(R"("thinking":{"type":"adaptive","display":)" + display + "}")
        ->form.include_reasoning;
  };
  EXPECT_TRUE(shows("null") && shows(R"("summarized")"));
  EXPECT_FALSE(shows(R"("omitted")"));
}

TEST(AnthropicReader, Tools) {
  const std::string tools =
      R"("tools":[{"name":"tide","description":"Its height.","input_schema":{"type":"object"},"strict":true,)"
      R"("cache_control":{"type":"ephemeral"},"eager_input_streaming":true,"allowed_callers":["direct"]},)"
      R"({"type":"custom","name":"now","input_schema":{},"input_examples":[],"defer_loading":false}])";
  const ChatPrompt prompt = prompt_of(kQuestion, tools);
  ASSERT_EQ(prompt.tools.size(), 2U);
  EXPECT_EQ(prompt.tools[0].name, "tide");
  EXPECT_EQ(prompt.tools[0].description, "Its height.");
  EXPECT_EQ(prompt.tools[0].parameters, R"({"type":"object"})");
  EXPECT_TRUE(prompt.tools[0].strict);
  EXPECT_FALSE(prompt.tools[1].description || prompt.tools[1].strict);
  EXPECT_EQ(prompt.tool_choice.kind, ToolChoice::Kind::kAuto);
  EXPECT_TRUE(prompt.parallel_tool_calls);
  const auto choice_of = [&](const std::string& members) {
    return prompt_of(kQuestion, tools + R"(,"tool_choice":{"type":)" + members + "}");
  };
  EXPECT_EQ(choice_of(R"("auto")").tool_choice.kind, ToolChoice::Kind::kAuto);
  EXPECT_EQ(choice_of(R"("any")").tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(choice_of(R"("none")").tool_choice.kind, ToolChoice::Kind::kNone);
  const ChatPrompt named = choice_of(R"("tool","name":"now","disable_parallel_tool_use":true)");
  EXPECT_EQ(named.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(named.tool_choice.name, "now");
  EXPECT_FALSE(named.parallel_tool_calls);
}

TEST(AnthropicReader, CountingNeedsNoLimit) {
  const std::string body = R"("messages":)" + std::string(kQuestion);
  EXPECT_TRUE(parse_body(body, Route::kCountTokens).has_value());
  const auto parsed = parse_body(body);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().field, "max_tokens");
}

struct BadBody {
  const char* members;  // beside a question and max_tokens; the last of two alike counts
  const char* param;
};

TEST(AnthropicReader, TheFormOfAnAnswerIsASchema) {
  const std::string format = R"({"type":"json_schema","schema":{"type":"object"}})";
  for (const std::string& members : {R"("output_config":{"effort":"low","format":)" + format + "}",
                                     "\"output_format\":" + format}) {
    const auto parsed = parse_asking(members);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    const Structure& structure = parsed->requests.front().structure;
    EXPECT_EQ(structure.kind, Structure::Kind::kJsonSchema);
    EXPECT_EQ(structure.text, R"({"type":"object"})");
    EXPECT_TRUE(structure.is_shown);
  }
}

const BadBody kBadBodies[] = {
    {R"("max_tokens":0)", "max_tokens"},
    {R"("max_tokens":null)", "max_tokens"},
    {R"("max_tokens":"9")", "max_tokens"},
    {R"("max_tokens":2147483648)", "max_tokens"},
    {R"("temperature":"1")", "temperature"},
    {R"("top_p":0)", "top_p"},
    {R"("top_k":1.5)", "top_k"},
    {R"("stream":1)", "stream"},
    {R"("stop_sequences":"x")", "stop_sequences"},
    {R"("stop_sequences":[7])", "stop_sequences[0]"},
    {R"("system":7)", "system"},
    {R"("system":[7])", "system[0]"},
    {R"("system":[{"text":"x"}])", "system[0].type"},
    {R"("system":[{"type":"text"}])", "system[0].text"},
    {R"("system":[{"type":"image"}])", "system[0]"},
    {R"("system":[{"type":"thinking","thinking":"x"}])", "system[0].type"},
    {R"("thinking":true)", "thinking"},
    {R"("thinking":{})", "thinking.type"},
    {R"("thinking":{"type":"between_tools"})", "thinking.type"},
    {R"("thinking":{"type":"enabled","budget_tokens":0})", "thinking.budget_tokens"},
    {R"("thinking":{"type":"enabled","budget_tokens":"1024"})", "thinking.budget_tokens"},
    {R"("thinking":{"type":"enabled","display":"loud"})", "thinking.display"},
    {R"("output_config":[])", "output_config"},
    {R"("output_config":{"effort":"none"})", "output_config.effort"},
    {R"("output_config":{"effort":50})", "output_config.effort"},
    {R"("output_config":{"format":[]})", "output_config.format"},
    {R"("output_config":{"format":{}})", "output_config.format.type"},
    {R"("output_config":{"format":{"type":"json_object"}})", "output_config.format.type"},
    {R"("output_config":{"format":{"type":"json_schema"}})", "output_config.format.schema"},
    {R"("output_config":{"format":{"type":"json_schema","schema":"{}"}})",
     "output_config.format.schema"},
    {R"("output_format":7)", "output_format"},
    {R"("output_format":{"type":"text"})", "output_format.type"},
    {R"("output_format":{"type":"json_schema","schema":{}},"output_config":{"format":{"type":"json_schema","schema":{}}})",
     "output_config.format"},
    {R"("output_config":{"task_budget":{"type":"tokens","total":1}})", "output_config.task_budget"},
    {R"("context_management":[])", "context_management"},
    {R"("context_management":{"edits":{}})", "context_management.edits"},
    {R"("context_management":{"edits":[7]})", "context_management.edits[0]"},
    {R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})",
     "context_management.edits[0].type"},
    {R"("context_management":{"edits":[{"type":"clear_thinking_20251015"}]})",
     "context_management.edits[0].keep"},
    {R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}]})",
     "context_management.edits[0].keep"},
    {R"("metadata":"u")", "metadata"},
    {R"("diagnostics":7)", "diagnostics"},
    {R"("service_tier":{})", "service_tier"},
    {R"("cache_control":true)", "cache_control"},
    {R"("tools":{})", "tools"},
    {R"("tools":[7])", "tools[0]"},
    {R"("tools":[{"input_schema":{}}])", "tools[0].name"},
    {R"("tools":[{"name":"no good","input_schema":{}}])", "tools[0].name"},
    {R"("tools":[{"name":"","input_schema":{}}])", "tools[0].name"},
    {R"("tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}])", "tools[1].name"},
    {R"("tools":[{"name":"a"}])", "tools[0].input_schema"},
    {R"("tools":[{"name":"a","input_schema":"{}"}])", "tools[0].input_schema"},
    {R"("tools":[{"name":"a","input_schema":{},"description":7}])", "tools[0].description"},
    {R"("tools":[{"name":"a","input_schema":{},"strict":"yes"}])", "tools[0].strict"},
    {R"("tools":[{"name":"a","input_schema":{},"type":7}])", "tools[0].type"},
    {R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type"},
    {R"("tools":[{"type":"bash_20250124","name":"bash"}])", "tools[0].type"},
    {R"("tools":[{"name":"a","input_schema":{},"input_examples":[{}]}])",
     "tools[0].input_examples"},
    {R"("tools":[{"name":"a","input_schema":{},"defer_loading":true}])", "tools[0].defer_loading"},
    {R"("tools":[{"name":"a","input_schema":{},"allowed_callers":["direct","code_execution_20250825"]}])",
     "tools[0].allowed_callers"},
    {R"("tool_choice":"auto")", "tool_choice"},
    {R"("tool_choice":{})", "tool_choice.type"},
    {R"("tool_choice":{"type":"required"})", "tool_choice.type"},
    {R"("tool_choice":{"type":"tool"})", "tool_choice.name"},
    {R"("tool_choice":{"type":"any","disable_parallel_tool_use":1})",
     "tool_choice.disable_parallel_tool_use"},
    {R"("container":"c")", "container"},
    {R"("mcp_servers":[{"type":"url","url":"x","name":"y"}])", "mcp_servers"},
    {R"("speed":"fast")", "speed"},
};

TEST(AnthropicReader, BadFieldsAreRefusedWithTheirPlace) {
  for (const BadBody& bad : kBadBodies) {
    SCOPED_TRACE(bad.members);
    const auto parsed = parse_asking(bad.members);
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().field, bad.param) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find(bad.param), 0U) << parsed.error().message;
    EXPECT_EQ(error_code_info(parsed.error().code).http_status, 400);
  }
}

const BadBody kBadMessages[] = {
    {R"("q")", "messages"},
    {"[]", "messages"},
    {"[7]", "messages[0]"},
    {R"([{"content":"q"}])", "messages[0].role"},
    {R"([{"role":"tool","content":"q"}])", "messages[0].role"},
    {R"([{"role":"user"}])", "messages[0].content"},
    {R"([{"role":"user","content":null}])", "messages[0].content"},
    {R"([{"role":"assistant","content":7}])", "messages[0].content"},
    {R"([{"role":"system","content":{}}])", "messages[0].content"},
    {R"([{"role":"user","content":["q"]}])", "messages[0].content[0]"},
    {R"([{"role":"user","content":[{"text":"q"}]}])", "messages[0].content[0].type"},
    {R"([{"role":"user","content":[{"type":"text","text":null}]}])", "messages[0].content[0].text"},
    {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{}}]}])",
     "messages[0].content[1]"},
    {R"([{"role":"user","content":[{"type":"document","source":{}}]}])", "messages[0].content[0]"},
    {R"([{"role":"user","content":[{"type":"zebra"}]}])", "messages[0].content[0].type"},
    {R"([{"role":"user","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]}])",
     "messages[0].content[0].type"},
    {R"([{"role":"user","content":[{"type":"tool_result","content":"x"}]}])",
     "messages[0].content[0].tool_use_id"},
    {R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":7}]}])",
     "messages[0].content[0].content"},
    {R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}]}])",
     "messages[0].content[0].content[0]"},
    {R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":"no"}]}])",
     "messages[0].content[0].is_error"},
    {R"([{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"t"}]}])",
     "messages[0].content[0].type"},
    {R"([{"role":"assistant","content":[{"type":"thinking"}]}])",
     "messages[0].content[0].thinking"},
    {R"([{"role":"assistant","content":[{"type":"tool_use","name":"n","input":{}}]}])",
     "messages[0].content[0].id"},
    {R"([{"role":"assistant","content":[{"type":"tool_use","id":"t","input":{}}]}])",
     "messages[0].content[0].name"},
    {R"([{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":"{}"}]}])",
     "messages[0].content[0].input"},
    {R"([{"role":"assistant","content":[{"type":"server_tool_use","id":"t","name":"n","input":{}}]}])",
     "messages[0].content[0]"},
};

TEST(AnthropicReader, BadMessagesAreRefusedWithTheirPlace) {
  for (const BadBody& bad : kBadMessages) {
    SCOPED_TRACE(bad.members);
    const auto parsed = parse_body(R"("max_tokens":9,"messages":)" + std::string(bad.members));
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().field, bad.param) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find(bad.param), 0U) << parsed.error().message;
  }
}

TEST(AnthropicReader, ImagesAndDocumentsAreRefusedInWords) {
  for (const std::string type : {"image", "document"}) {
    const auto parsed = parse_body(
        R"("max_tokens":9,"messages":[{"role":"user","content":[{"type":")" + type + "\"}]}]");
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(parsed.error().message,
                HasSubstr("content of type " + type + " is not supported yet"));
  }
}

// ---- The table

TEST(AnthropicFields, NamesAreThereOnce) {
  EXPECT_EQ(place_of(Route::kMessages), place_of(Route::kCountTokens));
  for (const Field& field : request_fields())
    EXPECT_EQ(find_field(kInMessages, field.name) == &field, field.is_in(kInMessages))
        << field.name;
}

// Null and what changes nothing read as absent; all else of what is not supported is refused.
TEST(AnthropicFields, WhatIsNotSupportedIsRefusedByName) {
  for (const Field& field : request_fields()) {
    const std::string name = field.name;
    if (!field.is_in(kInMessages) || name == "messages" || name == "max_tokens") continue;
    EXPECT_TRUE(parse_asking("\"" + name + "\":null").has_value()) << name;
    if (field.read != nullptr) continue;
    const auto parsed = parse_asking("\"" + name + "\":{\"x\":[3]}");
    ASSERT_FALSE(parsed.has_value()) << name;
    EXPECT_EQ(parsed.error().field, name);
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnsupported);
  }
  EXPECT_TRUE(parse_asking(R"("mcp_servers":[],"speed":"standard")").has_value());
}

TEST(AnthropicFields, TheDocumentHasTheTable) {
  const auto document = read_file(STOKER_SOURCE_DIR "/docs/server.md", 1 << 20);
  ASSERT_TRUE(document.has_value()) << document.error().message;
  EXPECT_NE(document->find("\n" + fields_markdown(kInMessages) + "\n"), std::string::npos)
      << "docs/server.md: expected this table:\n"
      << fields_markdown(kInMessages);
}

}  // namespace
}  // namespace stoker
