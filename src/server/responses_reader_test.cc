// Bodies of OpenAI's Responses interface: what the engine is asked, and what is refused with its
// place.
#include "server/responses_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "server/turn_lines.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ParsedRequest> parse_response(const std::string& members) {
  return parse_request(Route::kResponses, "{" + members + "}", {"demo"});
}

Result<ParsedRequest> parse_question(const std::string& members) {
  return parse_response(R"("input":"q")" + (members.empty() ? "" : "," + members));
}

// Of a body that is accepted.
ParsedRequest read_question(const std::string& members) {
  auto parsed = parse_question(members);
  EXPECT_TRUE(parsed.has_value()) << members << ": " << parsed.error().message;
  if (parsed) return *std::move(parsed);
  ParsedRequest none;
  none.requests.emplace_back().prompt = ChatPrompt{};
  return none;
}

ChatPrompt chat_of(const ParsedRequest& parsed) {
  return std::get<ChatPrompt>(parsed.requests.front().prompt);
}

// Of a body that is accepted.
std::vector<std::string> turns_of(const std::string& members) {
  const auto parsed = parse_response(members);
  EXPECT_TRUE(parsed.has_value()) << members << ": " << parsed.error().message;
  return parsed ? turn_lines(chat_of(*parsed)) : std::vector<std::string>();
}

TEST(ResponsesReader, FieldsReachTheRequest) {
  const ParsedRequest parsed = read_question(
      R"("model":"demo","temperature":0.5,"top_p":0.9,"max_output_tokens":9,"stream":true,)"
      R"("stream_options":{"include_obfuscation":false},"parallel_tool_calls":false,)"
      R"("include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":3,)"
      R"("top_k":40,"min_p":0.1,"seed":5,"stop":"END","cache_salt":"s","request_id":"r","priority":2,)"
      R"("store":true,"truncation":"disabled","background":false,"service_tier":"auto",)"
      R"("prompt_cache_key":"k","safety_identifier":"i","user":"u","metadata":{"a":"b"},"zebra":1)");
  EXPECT_EQ(parsed.form.route, Route::kResponses);
  EXPECT_TRUE(parsed.form.stream);
  EXPECT_TRUE(parsed.form.logprobs);
  EXPECT_EQ(parsed.request_id, "r");
  EXPECT_THAT(parsed.unknown_fields, ElementsAre("zebra"));
  const Request& request = parsed.requests.front();
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.logprobs, 3);
  EXPECT_EQ(request.priority, 2);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_THAT(request.stop, ElementsAre("END"));
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.seed, 5U);
  EXPECT_FALSE(chat_of(parsed).parallel_tool_calls);
  EXPECT_FALSE(read_question("").requests.front().logprobs);
}

TEST(ResponsesReader, HowItThinks) {
  EXPECT_FALSE(chat_of(read_question("")).reasoning_effort);
  const ChatPrompt prompt = chat_of(
      read_question(R"("reasoning":{"effort":"low","summary":"auto","context":"all_turns"})"));
  EXPECT_EQ(prompt.reasoning_effort, "low");
  EXPECT_TRUE(prompt.keep_reasoning);
  EXPECT_FALSE(
      chat_of(read_question(R"("reasoning":{"effort":null,"mode":"standard"})")).reasoning_effort);
  EXPECT_EQ(chat_of(read_question(R"("thinking":{"type":"disabled"})")).thinking, "disabled");
}

TEST(ResponsesReader, ToolsAreFlat) {
  const ChatPrompt prompt = chat_of(read_question(
      R"("tools":[{"type":"function","name":"tide","description":"d","parameters":{"a":1},"strict":true},)"
      R"({"type":"function","name":"now","parameters":null,"strict":null}],)"
      R"("tool_choice":{"type":"function","name":"tide"})"));
  ASSERT_EQ(prompt.tools.size(), 2U);
  EXPECT_EQ(prompt.tools[0].name, "tide");
  EXPECT_EQ(prompt.tools[0].description, "d");
  EXPECT_EQ(prompt.tools[0].parameters, R"({"a":1})");
  EXPECT_TRUE(prompt.tools[0].strict);
  EXPECT_FALSE(prompt.tools[1].strict || prompt.tools[1].parameters);
  EXPECT_EQ(prompt.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(prompt.tool_choice.name, "tide");
  EXPECT_EQ(chat_of(read_question(R"("tool_choice":"required")")).tool_choice.kind,
            ToolChoice::Kind::kRequired);
}

TEST(ResponsesReader, FormsOfTheText) {
  const auto structure_of = [](const std::string& text) {
    return read_question(R"("text":)" + text).requests.front().structure;
  };
  EXPECT_EQ(structure_of(R"({"format":{"type":"text"},"verbosity":"medium"})").kind,
            Structure::Kind::kNone);
  EXPECT_EQ(structure_of("{}").kind, Structure::Kind::kNone);
  EXPECT_EQ(structure_of(R"({"format":{"type":"json_object"}})").kind,
            Structure::Kind::kJsonObject);
  const Structure structure = structure_of(
      R"({"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}})");
  EXPECT_EQ(structure.kind, Structure::Kind::kJsonSchema);
  EXPECT_EQ(structure.text, R"({"type":"object"})");
  EXPECT_TRUE(structure.is_shown);
}

// ---- Input

TEST(ResponsesReader, InputIsATextOrMessages) {
  EXPECT_THAT(turns_of(R"("input":"q")"), ElementsAre("user q"));
  EXPECT_THAT(turns_of(R"("input":"q","instructions":"Be terse.")"),
              ElementsAre("system Be terse.", "user q"));
  EXPECT_THAT(turns_of(R"("instructions":"a","input":[{"role":"developer","content":"b"},)"
                       R"({"type":"message","role":"user","status":"completed","content":)"
                       R"([{"type":"input_text","text":"c"},{"type":"input_text","text":"d"}]}])"),
              ElementsAre("system a", "developer b", "user c d"));
}

// What an answer told comes back item by item.
TEST(ResponsesReader, ItemsOfTheAssistantAreOneTurn) {
  EXPECT_THAT(
      turns_of(
          R"("input":[{"role":"user","content":"q"},)"
          R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},)"
          R"({"type":"message","id":"msg_1","role":"assistant","status":"completed","content":)"
          R"([{"type":"output_text","text":"t","annotations":[],"logprobs":[]}]},)"
          R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"},)"
          R"({"type":"function_call","call_id":"c2","name":"g","arguments":"{\"a\":1}"},)"
          R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
          R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},)"
          R"({"role":"assistant","content":"end"},{"role":"user","content":"more"}])"),
      ElementsAre("user q", "assistant t [r] (c1 f {}) (c2 g {\"a\":1})", "tool one <c1>",
                  "tool two <c2>", "assistant end", "user more"));
}

TEST(ResponsesReader, ReasoningOfOtherServers) {
  EXPECT_THAT(turns_of(R"("input":[{"role":"user","content":"q"},{"type":"reasoning","summary":[)"
                       R"({"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]},)"
                       R"({"type":"reasoning","summary":[],"encrypted_content":"x"},)"
                       R"({"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},)"
                       R"({"role":"user","content":"?"}])"),
              ElementsAre("user q", "assistant no [a\n\nb]", "user ?"));
}

// ---- Refusals

struct BadMembers {
  const char* members;
  const char* param;
};

const BadMembers kBadMembers[] = {
    {R"("model":7)", "model"},
    {R"("instructions":[])", "instructions"},
    {R"("max_output_tokens":0)", "max_output_tokens"},
    {R"("max_output_tokens":1.5)", "max_output_tokens"},
    {R"("temperature":-1)", "temperature"},
    {R"("max_tokens":9)", "max_tokens"},
    {R"("messages":[])", "messages"},
    {R"("stream":1)", "stream"},
    {R"("stream_options":{})", "stream_options"},
    {R"("previous_response_id":"resp_1")", "previous_response_id"},
    {R"("conversation":"conv_1")", "conversation"},
    {R"("background":true)", "background"},
    {R"("truncation":"auto")", "truncation"},
    {R"("prompt":{"id":"p"})", "prompt"},
    {R"("store":"no")", "store"},
    {R"("metadata":[])", "metadata"},
    {R"("metadata":{"a":1})", "metadata.a"},
    {R"("reasoning":"low")", "reasoning"},
    {R"("reasoning":{"effort":7})", "reasoning.effort"},
    {R"("reasoning":{"summary":"long"})", "reasoning.summary"},
    {R"("reasoning":{"context":"none"})", "reasoning.context"},
    {R"("reasoning":{"mode":"pro"})", "reasoning.mode"},
    {R"("text":[])", "text"},
    {R"("text":{"format":7})", "text.format"},
    {R"("text":{"format":{"type":"yaml"}})", "text.format.type"},
    {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema"},
    {R"("text":{"verbosity":"low"})", "text.verbosity"},
    {R"("text":{"verbosity":"loud"})", "text.verbosity"},
    {R"("text":{"format":{"type":"json_object"}},"structured_outputs":{"regex":"a"})",
     "structured_outputs.regex"},
    {R"("include":"x")", "include"},
    {R"("include":["web_search_call.results"])", "include[0]"},
    {R"("top_logprobs":2)", "top_logprobs"},
    {R"("top_logprobs":21)", "top_logprobs"},
    {R"("tools":7)", "tools"},
    {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
    {R"("tools":[{"type":"function"}])", "tools[0].name"},
    {R"("tools":[{"type":"function","name":"no good"}])", "tools[0].name"},
    {R"("tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}])", "tools[1].name"},
    {R"("tools":[{"type":"function","name":"a","parameters":"{}"}])", "tools[0].parameters"},
    {R"("tool_choice":"any")", "tool_choice"},
    {R"("tool_choice":{"type":"function"})", "tool_choice.name"},
    {R"("tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]})", "tool_choice.type"},
    {R"("prompt_cache_key":1)", "prompt_cache_key"},
    {R"("safety_identifier":1)", "safety_identifier"},
};

const BadMembers kBadInput[] = {
    {"7", "input"},
    {"[]", "input"},
    {"[7]", "input[0]"},
    {R"([{"type":7}])", "input[0].type"},
    {R"([{"type":"zebra"}])", "input[0].type"},
    {R"([{"type":"item_reference","id":"msg_1"}])", "input[0]"},
    {R"([{"type":"web_search_call"}])", "input[0]"},
    {R"([{"content":"q"}])", "input[0].role"},
    {R"([{"role":"tool","content":"q"}])", "input[0].role"},
    {R"([{"role":"user"}])", "input[0].content"},
    {R"([{"role":"user","content":null}])", "input[0].content"},
    {R"([{"role":"user","content":[7]}])", "input[0].content[0]"},
    {R"([{"role":"user","content":[{"type":"input_text"}]}])", "input[0].content[0].text"},
    {R"([{"role":"user","content":[{"type":"zebra","text":"q"}]}])", "input[0].content[0].type"},
    {R"([{"role":"user","content":"q"},{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
     "input[1].content[0]"},
    {R"([{"role":"user","content":[{"type":"input_file","file_id":"x"}]}])", "input[0].content[0]"},
    {R"([{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
    {R"([{"type":"function_call","call_id":"c","arguments":"{}"}])", "input[0].name"},
    {R"([{"type":"function_call","call_id":"c","name":"f","arguments":{}}])", "input[0].arguments"},
    {R"([{"type":"function_call_output","output":"o"}])", "input[0].call_id"},
    {R"([{"type":"function_call_output","call_id":"c"}])", "input[0].output"},
    {R"([{"type":"function_call_output","call_id":"c","output":[{"type":"input_image"}]}])",
     "input[0].output[0]"},
    {R"([{"type":"reasoning","content":7}])", "input[0].content"},
    {R"([{"type":"reasoning","content":[{"type":"output_text","text":"r"}]}])",
     "input[0].content[0].type"},
};

void expect_refusal(const Result<ParsedRequest>& parsed, const BadMembers& bad) {
  SCOPED_TRACE(bad.members);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().field, bad.param) << parsed.error().message;
  EXPECT_EQ(parsed.error().message.find(bad.param), 0U) << parsed.error().message;
  EXPECT_EQ(error_code_info(parsed.error().code).http_status, 400);
}

TEST(ResponsesReader, WhatIsWrongIsRefusedWithItsPlace) {
  for (const BadMembers& bad : kBadMembers) expect_refusal(parse_question(bad.members), bad);
  for (const BadMembers& bad : kBadInput)
    expect_refusal(parse_response(R"("input":)" + std::string(bad.members)), bad);
  expect_refusal(parse_response(""), {"", "input"});
}

TEST(ResponsesReader, MetadataIsBounded) {
  const auto pairs = [](size_t count, size_t key_bytes, size_t value_bytes) {
    std::string out = R"("metadata":{)";
    for (size_t i = 0; i < count; ++i) {
      out += (i == 0 ? "\"" : ",\"") + std::to_string(10 + i) + std::string(key_bytes - 2, 'k') +
             "\":\"" + std::string(value_bytes, 'v') + "\"";
    }
    return parse_question(out + "}").has_value();
  };
  EXPECT_TRUE(pairs(16, 64, 2048));
  EXPECT_FALSE(pairs(17, 2, 1));
  EXPECT_FALSE(pairs(1, 65, 1));
  EXPECT_FALSE(pairs(1, 2, 2049));
}

// ---- What the answer repeats

TEST(ResponsesReader, TheAnswerRepeatsMembers) {
  EXPECT_EQ(read_question("").form.repeated,
            R"("instructions":null,"max_output_tokens":null,"metadata":{},)"
            R"("parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},)"
            R"("temperature":null,"text":{"format":{"type":"text"}},"tool_choice":"auto",)"
            R"("tools":[],"top_logprobs":0,"top_p":null,"user":null)");
  const std::string repeated =
      read_question(
          R"("instructions":"i","metadata":{"a":"b"},"temperature":0.5,"tool_choice":null)")
          .form.repeated;
  EXPECT_THAT(repeated, HasSubstr(R"("instructions":"i",)"));
  EXPECT_THAT(repeated, HasSubstr(R"("metadata":{"a":"b"},)"));
  EXPECT_THAT(repeated, HasSubstr(R"("temperature":0.5,)"));
  EXPECT_THAT(repeated, HasSubstr(R"("tool_choice":"auto",)"));
}

TEST(ResponsesReader, WhatIsRepeatedIsBounded) {
  const std::string most((size_t{4} << 20) - 16, 'x');
  expect_refusal(parse_question(R"("instructions":")" + most + "\""),
                 {"4 MiB of instructions", "instructions"});
  const std::string half(size_t{2} << 20, 'x');
  EXPECT_TRUE(parse_question(R"("instructions":")" + half + "\"").has_value());
  expect_refusal(
      parse_question(R"("instructions":")" + half +
                     R"(","tools":[{"type":"function","name":"f","description":")" + half + "\"}]"),
      {"4 MiB of both", "tools"});
}

// ---- The table

TEST(ResponsesFields, NamesAreThereOnce) {
  for (const Field& field : request_fields())
    EXPECT_EQ(find_field(kInResponses, field.name) == &field, field.is_in(kInResponses))
        << field.name;
}

TEST(ResponsesFields, WhatIsNotSupportedIsRefusedByName) {
  for (const Field& field : request_fields()) {
    const std::string name = field.name;
    if (!field.is_in(kInResponses) || name == "input") continue;
    EXPECT_TRUE(parse_question("\"" + name + "\":null").has_value()) << name;
    if (field.read == nullptr)
      expect_refusal(parse_question("\"" + name + "\":{\"x\":[3]}"), {field.name, field.name});
  }
}

TEST(ResponsesFields, TheEnginesNamesAreTold) {
  const Error told = in_terms_of(
      Route::kResponses, {ErrorCode::kInvalidArgument, "max_tokens: too many", "max_tokens"});
  EXPECT_EQ(told.message, "max_output_tokens: too many");
  EXPECT_EQ(told.field, "max_output_tokens");
  EXPECT_EQ(in_terms_of(Route::kChat, {ErrorCode::kInvalidArgument, "x", "max_tokens"}).field,
            "max_tokens");
}

TEST(ResponsesFields, TheDocumentHasTheTable) {
  const auto document = read_file(STOKER_SOURCE_DIR "/docs/server.md", 1 << 20);
  ASSERT_TRUE(document.has_value()) << document.error().message;
  EXPECT_NE(document->find("\n" + fields_markdown(kInResponses) + "\n"), std::string::npos)
      << "docs/server.md: expected this table:\n"
      << fields_markdown(kInResponses);
}

}  // namespace
}  // namespace stoker
