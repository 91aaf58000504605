#include "server/request_parser.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "server/fields.h"

namespace stoker {
namespace {

const std::vector<std::string> kNames = {"demo", "org/other"};

// A whole body around one member.
std::string body_with(Route route, const std::string& members) {
  const std::string prompt =
      route == Route::kChat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")";
  return "{" + prompt + (members.empty() ? "" : "," + members) + "}";
}

Result<ParsedRequest> parse(Route route, const std::string& members) {
  return parse_request(route, body_with(route, members), kNames);
}

struct Case {
  const char* members;
  const char* param;  // of the error; null: accepted
};

void check(Route route, const Case& c) {
  SCOPED_TRACE(c.members);
  const auto parsed = parse(route, c.members);
  if (c.param == nullptr) {
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message);
    return;
  }
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().field, c.param) << parsed.error().message;
  EXPECT_EQ(error_code_info(parsed.error().code).http_status, 400);
  EXPECT_NE(parsed.error().message.find(c.param), std::string::npos) << parsed.error().message;
}

const Case kCommonCases[] = {
    {R"("model":"demo")", nullptr},
    {R"("model":"")", nullptr},
    {R"("model":null)", nullptr},
    {R"("model":"org/other")", nullptr},
    {R"("model":7)", "model"},
    {R"("max_tokens":1)", nullptr},
    {R"("max_tokens":null)", nullptr},
    {R"("max_tokens":2147483647)", nullptr},
    {R"("max_tokens":2147483648)", "max_tokens"},
    {R"("max_tokens":0)", "max_tokens"},
    {R"("max_tokens":-1)", "max_tokens"},
    {R"("max_tokens":1.0)", "max_tokens"},
    {R"("max_tokens":1e2)", "max_tokens"},
    {R"("max_tokens":true)", "max_tokens"},
    {R"("max_tokens":"5")", "max_tokens"},
    {R"("max_completion_tokens":5)", nullptr},
    {R"("max_completion_tokens":0)", "max_completion_tokens"},
    {R"("max_completion_tokens":[])", "max_completion_tokens"},
    {R"("temperature":0)", nullptr},
    {R"("temperature":0.7)", nullptr},
    {R"("temperature":100)", nullptr},
    {R"("temperature":null)", nullptr},
    {R"("temperature":-0.1)", "temperature"},
    {R"("temperature":true)", "temperature"},
    {R"("temperature":"1")", "temperature"},
    {R"("top_p":1)", nullptr},
    {R"("top_p":0.1)", nullptr},
    {R"("top_p":0)", "top_p"},
    {R"("top_p":1.01)", "top_p"},
    {R"("top_p":false)", "top_p"},
    {R"("top_k":0)", nullptr},
    {R"("top_k":-1)", nullptr},
    {R"("top_k":50)", nullptr},
    {R"("top_k":-2)", "top_k"},
    {R"("top_k":1.5)", "top_k"},
    {R"("top_k":false)", "top_k"},
    {R"("seed":0)", nullptr},
    {R"("seed":-9223372036854775808)", nullptr},
    {R"("seed":9223372036854775807)", nullptr},
    {R"("seed":9223372036854775808)", "seed"},
    {R"("seed":-9223372036854775809)", "seed"},
    {R"("seed":true)", "seed"},
    {R"("seed":1.5)", "seed"},
    {R"("stop":"x")", nullptr},
    {R"("stop":[])", nullptr},
    {R"("stop":["a","","b"])", nullptr},
    {R"("stop":null)", nullptr},
    {R"("stop":5)", "stop"},
    {R"("stop":[5])", "stop[0]"},
    {R"("stop":["a",null])", "stop[1]"},
    {R"("receipt":true)", nullptr},
    {R"("receipt":1)", "receipt"},
    {R"("stream":true)", nullptr},
    {R"("stream":null)", nullptr},
    {R"("stream":1)", "stream"},
    {R"("stream":true,"stream_options":{"include_usage":true})", nullptr},
    {R"("stream_options":{"include_usage":null},"stream":true)", nullptr},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
    {R"("stream":true,"stream_options":{"continuous_usage_stats":"yes"})",
     "stream_options.continuous_usage_stats"},
    {R"("stream":true,"stream_options":true)", "stream_options"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream_options":null)", nullptr},
    {R"("user":"me")", nullptr},
    {R"("user":5)", "user"},
    {R"("request_id":"abc-1")", nullptr},
    {R"("request_id":"a b")", "request_id"},
    {R"("request_id":"")", "request_id"},
    {R"("request_id":5)", "request_id"},
    {R"("no_such_field":{"a":[1,2]})", nullptr},
    {R"("min_p":0)", nullptr},
    {R"("min_p":1)", nullptr},
    {R"("min_p":1.1)", "min_p"},
    {R"("min_p":-0.1)", "min_p"},
    {R"("min_p":"0")", "min_p"},
    {R"("presence_penalty":0.0)", nullptr},
    {R"("presence_penalty":-2)", nullptr},
    {R"("presence_penalty":2.1)", "presence_penalty"},
    {R"("frequency_penalty":2)", nullptr},
    {R"("frequency_penalty":-2.1)", "frequency_penalty"},
    {R"("frequency_penalty":[])", "frequency_penalty"},
    {R"("truncate_prompt_tokens":1)", nullptr},
    {R"("truncate_prompt_tokens":-1)", nullptr},
    {R"("truncate_prompt_tokens":null)", nullptr},
    {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
    {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
    {R"("truncate_prompt_tokens":true)", "truncate_prompt_tokens"},
    {R"("truncate_prompt_tokens":4.0)", "truncate_prompt_tokens"},
    {R"("return_progress":false)", nullptr},
    {R"("return_progress":true,"stream":true)", nullptr},
    {R"("return_progress":true)", "return_progress"},
    {R"("return_progress":1,"stream":true)", "return_progress"},
    {R"("repetition_detection":{})", nullptr},
    {R"("repetition_detection":{"max_pattern_size":9,"min_count":2})", nullptr},
    {R"("repetition_detection":{"max_pattern_size":9,"min_pattern_size":9,"min_count":3})",
     nullptr},
    {R"("repetition_detection":7)", "repetition_detection"},
    {R"("repetition_detection":{"max_pattern_size":1025,"min_count":2})",
     "repetition_detection.max_pattern_size"},
    {R"("repetition_detection":{"max_pattern_size":1.0,"min_count":2})",
     "repetition_detection.max_pattern_size"},
    {R"("repetition_detection":{"max_pattern_size":9,"min_pattern_size":10,"min_count":2})",
     "repetition_detection.min_pattern_size"},
    {R"("repetition_detection":{"min_pattern_size":1})", "repetition_detection.min_pattern_size"},
    {R"("repetition_detection":{"max_pattern_size":9})", "repetition_detection.min_count"},
    {R"("repetition_detection":{"max_pattern_size":9,"min_count":1})",
     "repetition_detection.min_count"},
    {R"("max_repetition_pattern_size":0,"min_repetition_pattern_size":0)", nullptr},
    {R"("max_repetition_pattern_size":9,"repetition_min_count":2)", nullptr},
    {R"("max_repetition_pattern_size":true)", "max_repetition_pattern_size"},
    {R"("max_repetition_pattern_size":9)", "repetition_min_count"},
    {R"("repetition_min_count":-1)", "repetition_min_count"},
    {R"("min_repetition_pattern_size":2)", "min_repetition_pattern_size"},
    {R"("repetition_detection":{},"repetition_min_count":2)", "repetition_detection"},
    {R"("repetition_penalty":1.1)", nullptr},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("repetition_penalty":1e7)", "repetition_penalty"},
    {R"("logit_bias":{})", nullptr},
    {R"("logit_bias":{"5":1,"6":-100,"7":100.0})", nullptr},
    {R"("logit_bias":[])", "logit_bias"},
    {R"("logit_bias":{"5":101})", "logit_bias.5"},
    {R"("logit_bias":{"5":"1"})", "logit_bias.5"},
    {R"("logit_bias":{"-5":1})", "logit_bias.-5"},
    {R"("logit_bias":{"x":1})", "logit_bias.x"},
    {R"("logit_bias":{"":1})", "logit_bias."},
    {R"("logit_bias":{"4294967296":1})", "logit_bias.4294967296"},
    {R"("allowed_token_ids":[5,6])", nullptr},
    {R"("allowed_token_ids":[])", "allowed_token_ids"},
    {R"("allowed_token_ids":[-1])", "allowed_token_ids[0]"},
    {R"("allowed_token_ids":5)", "allowed_token_ids"},
    {R"("banned_token_ids":[])", nullptr},
    {R"("banned_token_ids":[1,2.5])", "banned_token_ids[1]"},
    {R"("bad_words":[])", nullptr},
    {R"("bad_words":["a","b c"])", nullptr},
    {R"("bad_words":"a")", "bad_words"},
    {R"("bad_words":["a",1])", "bad_words[1]"},
    {R"("min_tokens":0)", nullptr},
    {R"("min_tokens":1)", nullptr},
    {R"("min_tokens":-1)", "min_tokens"},
    {R"("ignore_eos":true)", nullptr},
    {R"("ignore_eos":1)", "ignore_eos"},
    {R"("speculate":false)", nullptr},
    {R"("speculate":0)", "speculate"},
    {R"("stop_token_ids":[1])", nullptr},
    {R"("stop_token_ids":[])", nullptr},
    {R"("stop_token_ids":["1"])", "stop_token_ids[0]"},
    {R"("stop_token_ids":1)", "stop_token_ids"},
    {R"("include_stop_str_in_output":true)", nullptr},
    {R"("include_stop_str_in_output":"yes")", "include_stop_str_in_output"},
    {R"("n":1)", nullptr},
    {R"("n":128)", nullptr},
    {R"("n":1.0)", "n"},
    {R"("n":null)", nullptr},
    {R"("n":0)", "n"},
    {R"("n":129)", "n"},
    {R"("n":true)", "n"},
    {R"("best_of":1)", nullptr},
    {R"("best_of":0)", "best_of"},
    {R"("logprobs":false)", nullptr},
    {R"("logprobs":"5")", "logprobs"},
    {R"("prompt_logprobs":0)", nullptr},
    {R"("prompt_logprobs":20)", nullptr},
    {R"("prompt_logprobs":21)", "prompt_logprobs"},
    {R"("prompt_logprobs":-1)", "prompt_logprobs"},
    {R"("prompt_logprobs":true)", "prompt_logprobs"},
    {R"("prompt_logprobs":0,"stream":true)", "prompt_logprobs"},
    // Known and not supported: what changes nothing passes, all else is named.
    {R"("use_beam_search":false)", nullptr},
    {R"("use_beam_search":true)", "use_beam_search"},
    {R"("response_format":{"type":"text"})", nullptr},
    {R"("response_format":{"type":"json_object"})", nullptr},
    {R"("structured_outputs":{"regex":"a"})", nullptr},
    {R"("guided_json":{})", nullptr},
    {R"("guided_regex":"a")", nullptr},
    {R"("echo":false)", nullptr},
    {R"("add_special_tokens":false)", nullptr},
    {R"("return_token_ids":true)", nullptr},
    {R"("return_token_ids":1)", "return_token_ids"},
    {R"("return_tokens_as_token_ids":true)", nullptr},
    {R"("return_tokens_as_token_ids":"x")", "return_tokens_as_token_ids"},
    {R"("skip_special_tokens":true)", nullptr},
    {R"("skip_special_tokens":false)", "skip_special_tokens"},
    {R"("priority":0)", nullptr},
    {R"("priority":1)", nullptr},
    {R"("priority":-2147483648)", nullptr},
    {R"("priority":2147483648)", "priority"},
    {R"("priority":"high")", "priority"},
    {R"("cache_salt":"a tenant")", nullptr},
    {R"("cache_salt":"")", "cache_salt"},
    {R"("cache_salt":5)", "cache_salt"},
};

TEST(RequestParser, CommonFields) {
  for (const Case& c : kCommonCases) {
    check(Route::kCompletions, c);
    check(Route::kChat, c);
  }
}

TEST(RequestParser, ChatFields) {
  const Case cases[] = {
      {R"("thinking":{"type":"disabled"})", nullptr},
      {R"("thinking":null)", nullptr},
      {R"("thinking":true)", "thinking"},
      {R"("thinking":{})", "thinking.type"},
      {R"("thinking":{"type":1})", "thinking.type"},
      {R"("reasoning_effort":"low")", nullptr},
      {R"("reasoning_effort":33)", nullptr},
      {R"("reasoning_effort":true)", "reasoning_effort"},
      {R"("reasoning_effort":1.5)", "reasoning_effort"},
      {R"("top_logprobs":0)", nullptr},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("tools":[])", nullptr},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":{})", "tools"},
      {R"("tools":[7])", "tools[0]"},
      {R"("tools":[{"function":{"name":"f"}}])", "tools[0].type"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}])", nullptr},
      {R"("tools":[{"type":"function","function":{"name":"f","description":1}}])",
       "tools[0].function.description"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}])",
       "tools[0].function.parameters"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])",
       "tools[0].function.strict"},
      {R"("stop_scope":"all")", nullptr},
      {R"("stop_scope":"content")", nullptr},
      {R"("stop_scope":"reasoning")", "stop_scope"},
      {R"("stop_scope":true)", "stop_scope"},
      {R"("logprobs":true,"logprobs_scope":"all")", nullptr},
      {R"("logprobs_scope":"")", "logprobs_scope"},
      {R"("thinking_token_budget":0)", nullptr},
      {R"("thinking_token_budget":-1)", nullptr},
      {R"("thinking_token_budget":null)", nullptr},
      {R"("thinking_token_budget":-2)", "thinking_token_budget"},
      {R"("thinking_token_budget":true)", "thinking_token_budget"},
      {R"("thinking_token_budget":8.0)", "thinking_token_budget"},
      {R"("thinking_token_budget":"8")", "thinking_token_budget"},
      {R"("thinking_token_budget":2147483648)", "thinking_token_budget"},
      {R"("tool_choice":"none")", nullptr},
      {R"("tool_choice":"required")", nullptr},
      {R"("tool_choice":"some")", "tool_choice"},
      {R"("tool_choice":7)", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", nullptr},
      {R"("tool_choice":{"type":"function","function":{}})", "tool_choice.function.name"},
      {R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.type"},
      {R"("parallel_tool_calls":false)", nullptr},
      {R"("parallel_tool_calls":1)", "parallel_tool_calls"},
      {R"("drop_thinking":false)", nullptr},
      {R"("clear_thinking":1)", "drop_thinking"},
      {R"("continue_final_message":true,"add_generation_prompt":false)", nullptr},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
      {R"("functions":[{}])", "functions"},
      {R"("include_reasoning":false)", nullptr},
      {R"("include_reasoning":0)", "include_reasoning"},
      {R"("echo":true)", "echo"},
      {R"("add_special_tokens":true)", "add_special_tokens"},
      {R"("add_generation_prompt":false)", "add_generation_prompt"},
      {R"("continue_final_message":true)", nullptr},
      {R"("continue_final_message":1)", "continue_final_message"},
      {R"("chat_template_kwargs":{})", nullptr},
      {R"("chat_template_kwargs":{"thinking":true,"enable_thinking":true,"x":1})", nullptr},
      {R"("chat_template_kwargs":{"thinking":true,"enable_thinking":false})",
       "chat_template_kwargs.enable_thinking"},
      {R"("chat_template_kwargs":{"thinking":"yes"})", "chat_template_kwargs.thinking"},
      {R"("chat_template_kwargs":{"reasoning_effort":1.5})",
       "chat_template_kwargs.reasoning_effort"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("documents":[{}])", "documents"},
      {R"("suffix":"x")", nullptr},  // no field of this route
  };
  for (const Case& c : cases) check(Route::kChat, c);
}

TEST(RequestParser, CompletionFields) {
  const Case cases[] = {
      {R"("suffix":null)", nullptr},
      {R"("suffix":"x")", "suffix"},
      {R"("tools":[{}])", nullptr},  // no field of this route
      {R"("echo":true)", nullptr},
      {R"("echo":true,"max_tokens":0)", nullptr},
      {R"("echo":true,"max_tokens":0,"min_tokens":1)", "min_tokens"},
      {R"("echo":true,"logprobs":1)", nullptr},
      {R"("echo":true,"logprobs":1,"stream":true)", "echo"},
      {R"("add_special_tokens":true)", nullptr},
      {R"("add_special_tokens":"x")", "add_special_tokens"},
      {R"("prompt":"later wins")", nullptr},
  };
  for (const Case& c : cases) check(Route::kCompletions, c);
}

TEST(RequestParser, ChoicesAndLogprobsOfCompletions) {
  const Case cases[] = {
      {R"("logprobs":0)", nullptr},        {R"("logprobs":20)", nullptr},
      {R"("logprobs":21)", "logprobs"},    {R"("logprobs":true)", "logprobs"},
      {R"("best_of":3)", nullptr},         {R"("best_of":3,"n":3,"stream":true)", nullptr},
      {R"("best_of":3,"n":4)", "best_of"}, {R"("n":2,"best_of":3,"stream":true)", "best_of"},
      {R"("best_of":129)", "best_of"},
  };
  for (const Case& c : cases) check(Route::kCompletions, c);
  const auto best = parse(Route::kCompletions, R"("n":2,"best_of":5)");
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->form.num_choices, 2);
  EXPECT_FALSE(best->form.logprobs);
  EXPECT_EQ(best->requests[0].n, 5);
  EXPECT_EQ(best->requests[0].logprobs, 0) << "they are compared by them";
}

TEST(RequestParser, ChoicesAndLogprobsOfChats) {
  const Case cases[] = {
      {R"("logprobs":true)", nullptr},
      {R"("logprobs":true,"top_logprobs":20)", nullptr},
      {R"("top_logprobs":0)", nullptr},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("top_logprobs":3,"logprobs":false)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":2)", "logprobs"},
      {R"("best_of":2)", "best_of"},
  };
  for (const Case& c : cases) check(Route::kChat, c);
  const auto parsed = parse(Route::kChat, R"("logprobs":true,"top_logprobs":4,"n":3)");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->form.logprobs);
  EXPECT_EQ(parsed->form.num_choices, 3);
  EXPECT_EQ(parsed->requests[0].n, 3);
  EXPECT_EQ(parsed->requests[0].logprobs, 4);
}

TEST(RequestParser, SamplingFieldsAreSubmitted) {
  const auto parsed = parse(Route::kCompletions, R"("min_p":0.5,"presence_penalty":1,
      "frequency_penalty":-1,"repetition_penalty":1.5,"logit_bias":{"7":-3.5},
      "allowed_token_ids":[7,8],"banned_token_ids":[9],"bad_words":["x"],"min_tokens":2,
      "ignore_eos":true,"stop_token_ids":[4],"include_stop_str_in_output":true,
      "prompt_logprobs":3)");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const Request& request = parsed->requests[0];
  EXPECT_EQ(request.sampling.min_p, 0.5);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<int32_t, double>{{7, -3.5}}));
  EXPECT_EQ(request.sampling.allowed_token_ids, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(request.sampling.banned_token_ids, std::vector<int32_t>{9});
  EXPECT_EQ(request.sampling.bad_words, std::vector<std::string>{"x"});
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_eos && request.include_stop_str_in_output);
  EXPECT_EQ(request.stop_token_ids, std::vector<int32_t>{4});
  EXPECT_EQ(request.prompt_logprobs, 3);
}

TEST(RequestParser, Bodies) {
  const Case cases[] = {
      {R"({"prompt":["a","b"]})", nullptr},
      {R"({"prompt":""})", nullptr},
      {R"({"prompt":[1,2]})", nullptr},
      {R"({"prompt":[[1],[2,3]]})", nullptr},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[[]]})", "prompt[0]"},
      {R"({"prompt":["a",1]})", "prompt[1]"},
      {R"({"prompt":["a",[1]]})", "prompt[1]"},
      {R"({"prompt":[1,"a"]})", "prompt[1]"},
      {R"({"prompt":[-1]})", "prompt[0]"},
      {R"({"prompt":[1,2147483648]})", "prompt[1]"},
      {R"({"prompt":[[1,true]]})", "prompt[0][1]"},
      {R"({"prompt":[1.5]})", "prompt[0]"},
      {R"({"prompt":[null]})", "prompt[0]"},
      {R"({"prompt":{}})", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {R"({})", "prompt"},
      {R"([])", ""},
      {R"("x")", ""},
      {R"({"prompt":"a","temperature":1e400})", ""},
      {R"({"prompt":"a")", ""},
      {R"({"prompt":"a"} x)", ""},
      {"{\"prompt\":\"\xff\"}", ""},
      {"", ""},
      {"{:", ""},
      {R"({"prompt":NaN})", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.members);
    const auto parsed = parse_request(Route::kCompletions, c.members, kNames);
    ASSERT_EQ(parsed.has_value(), c.param == nullptr);
    if (!parsed) {
      EXPECT_EQ(parsed.error().field, c.param);
      EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(RequestParser, Messages) {
  const Case cases[] = {
      {R"([{"role":"system","content":"s"},{"role":"user","content":"u","name":"n"}])", nullptr},
      {R"([{"role":"developer","content":"d"},{"role":"latest_reminder","content":"r"}])", nullptr},
      {R"([{"role":"user"}])", nullptr},
      {R"([{"role":"user","content":null}])", nullptr},
      {R"([{"role":"user","content":[]}])", nullptr},
      {R"([{"role":"user","content":[{"type":"text","text":"a"}]}])", nullptr},
      {R"([{"role":"assistant","content":"a","tool_calls":[],"refusal":null}])", nullptr},
      {R"([{"role":"assistant","content":"a","prefix":false}])", nullptr},
      {R"([])", "messages"},
      {R"("hi")", "messages"},
      {R"(null)", "messages"},
      {R"([5])", "messages[0]"},
      {R"([{"content":"a"}])", "messages[0].role"},
      {R"([{"role":5}])", "messages[0].role"},
      {R"([{"role":"king"}])", "messages[0].role"},
      {R"([{"role":"user"},{"role":"tool","content":"x","tool_call_id":"c"}])", nullptr},
      {R"([{"role":"function","content":"x"}])", nullptr},
      {R"([{"role":"tool","tool_call_id":1}])", "messages[0].tool_call_id"},
      {R"([{"role":"assistant","tool_calls":[{"id":"a","type":"function",
          "function":{"name":"f","arguments":"{}"}}]}])",
       nullptr},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}])",
       nullptr},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[7]}])", "messages[0].tool_calls[0]"},
      {R"([{"role":"assistant","tool_calls":[{"id":1}]}])", "messages[0].tool_calls[0].id"},
      {R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":7}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":{"type":"text"}}])", "messages[0].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[1]"},
      {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"poem"}]}])", "messages[0].content[0]"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role":"assistant","prefix":true}])", nullptr},
      {R"([{"role":"assistant","prefix":1}])", "messages[0].prefix"},
      {R"([{"role":"assistant","prefix":true},{"role":"user"}])", "messages[0].prefix"},
      {R"([{"role":"assistant","function_call":{}}])", "messages[0].function_call"},
      {R"([{"role":"assistant","reasoning":5}])", "messages[0].reasoning"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.members);
    const auto parsed =
        parse_request(Route::kChat, std::string("{\"messages\":") + c.members + "}", kNames);
    ASSERT_EQ(parsed.has_value(), c.param == nullptr) << (parsed ? "" : parsed.error().message);
    if (!parsed) {
      EXPECT_EQ(parsed.error().field, c.param);
    }
  }
}

TEST(RequestParser, WhatIsReadIsSubmitted) {
  const auto parsed = parse_request(Route::kChat, R"({
      "messages":[{"role":"system","content":"s"},
                  {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                  {"role":"assistant","content":null,"reasoning":"new","reasoning_content":"old"}],
      "max_tokens":3, "max_completion_tokens":4, "temperature":0.5, "top_p":0.25, "top_k":9,
      "seed":-2, "stop":["x","","y"], "stream":true, "thinking":{"type":"enabled"},
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},
      "reasoning_effort":80, "request_id":"r", "odd":1, "model":"org/other"})",
                                    kNames);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_TRUE(parsed->form.stream && parsed->form.include_usage &&
              parsed->form.continuous_usage_stats);
  EXPECT_EQ(parsed->form.model, "org/other");
  EXPECT_EQ(parsed->request_id, "r");
  EXPECT_EQ(parsed->unknown_fields, std::vector<std::string>{"odd"});
  ASSERT_EQ(parsed->requests.size(), 1U);
  const Request& request = parsed->requests.front();
  EXPECT_EQ(request.max_tokens, 4);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.25);
  EXPECT_EQ(request.sampling.top_k, 9);
  EXPECT_EQ(request.sampling.seed, uint64_t{0} - 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "y"}));
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  EXPECT_EQ(chat.thinking, "enabled");
  EXPECT_EQ(chat.reasoning_effort, "80");
  ASSERT_EQ(chat.messages.size(), 3U);
  EXPECT_EQ(chat.messages[1].content, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(chat.messages[2].content.empty());
  EXPECT_EQ(chat.messages[2].reasoning_content, "old");
}

TEST(RequestParser, DefaultsAreTheEnginesExceptForCompletionLength) {
  const auto completion = parse(Route::kCompletions, "");
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->requests.front().max_tokens, 16);
  EXPECT_EQ(completion->form.model, "demo");
  EXPECT_FALSE(std::get<TextPrompt>(completion->requests.front().prompt).add_bos);
  const auto chat = parse(Route::kChat, "");
  ASSERT_TRUE(chat.has_value());
  EXPECT_FALSE(chat->requests.front().max_tokens.has_value());
  EXPECT_FALSE(chat->requests.front().sampling.temperature.has_value());
}

TEST(RequestParser, AThinkingBudgetIsSubmittedWhereThereIsReasoning) {
  const auto budget = [](const char* members) {
    const auto parsed = parse(Route::kChat, members);
    return parsed ? parsed->requests[0].thinking_token_budget : std::optional(-7);
  };
  EXPECT_EQ(budget(R"("thinking_token_budget":12)"), 12);
  EXPECT_EQ(budget(R"("thinking_token_budget":0)"), 0);
  EXPECT_EQ(budget(R"("thinking_token_budget":-1)"), std::nullopt);
  EXPECT_EQ(budget(""), std::nullopt);
  check(Route::kCompletions, {R"("thinking_token_budget":-1)", nullptr});
  check(Route::kCompletions, {R"("thinking_token_budget":12)", "thinking_token_budget"});
}

TEST(RequestParser, ScopesAreSubmitted) {
  const auto all = parse(Route::kChat, R"("stop_scope":"all","logprobs_scope":"all")");
  EXPECT_TRUE(all->requests[0].stop_everywhere && all->form.all_logprobs);
  const auto none = parse(Route::kChat, R"("stop_scope":"content","logprobs_scope":"content")");
  EXPECT_FALSE(none->requests[0].stop_everywhere || none->form.all_logprobs);
}

TEST(RequestParser, RepetitionHasTwoSpellings) {
  const RepetitionDetection expected = {9, 2, 3};
  for (const char* members :
       {R"("repetition_detection":{"max_pattern_size":9,"min_pattern_size":2,"min_count":3})",
        R"("max_repetition_pattern_size":9,"min_repetition_pattern_size":2,)"
        R"("repetition_min_count":3)"}) {
    for (const Route route : {Route::kCompletions, Route::kChat})
      EXPECT_EQ(parse(route, members)->requests[0].repetition_detection, expected) << members;
  }
  EXPECT_FALSE(parse(Route::kChat, "")->requests[0].repetition_detection);
}

TEST(RequestParser, TemplateArgumentsStandBehindTheFieldsOfTheirOwn) {
  const auto chat_of = [](const std::string& members) {
    const auto parsed = parse(Route::kChat, members);
    EXPECT_TRUE(parsed.has_value()) << members;
    return std::get<ChatPrompt>(parsed->requests.front().prompt);
  };
  ChatPrompt chat =
      chat_of(R"("chat_template_kwargs":{"thinking":false,"reasoning_effort":"max"})");
  EXPECT_EQ(chat.thinking, "disabled");
  EXPECT_EQ(chat.reasoning_effort, "max");
  chat = chat_of(R"("chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":7})");
  EXPECT_EQ(chat.thinking, "enabled");
  EXPECT_EQ(chat.reasoning_effort, "7");
  chat = chat_of(R"("reasoning_effort":"low","thinking":{"type":"enabled"},)"
                 R"("chat_template_kwargs":{"thinking":false,"reasoning_effort":"max"})");
  EXPECT_EQ(chat.thinking, "enabled");
  EXPECT_EQ(chat.reasoning_effort, "low");
}

TEST(RequestParser, ToolsAndTheirResultsAreSubmitted) {
  const auto parsed = parse_request(Route::kChat, R"({"messages":[
      {"role":"user","content":"q"},
      {"role":"assistant","tool_calls":[{"id":"c1","type":"function",
          "function":{"name":"f","arguments":{"b":1,"a":[2.50]}}}]},
      {"role":"tool","tool_call_id":"c1","content":"r"},
      {"role":"assistant","content":"So","prefix":true}],
      "tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,
          "parameters":{"type":"object","z":1e2,"a":1.50}}},
          {"type":"function","function":{"name":"g"}}],
      "tool_choice":{"type":"function","function":{"name":"g"}},
      "parallel_tool_calls":false,"drop_thinking":false})",
                                    kNames);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_TRUE(parsed->form.names_tool);
  const auto& chat = std::get<ChatPrompt>(parsed->requests.front().prompt);
  ASSERT_EQ(chat.messages.size(), 4U);
  ASSERT_EQ(chat.messages[1].tool_calls.size(), 1U);
  EXPECT_EQ(chat.messages[1].tool_calls[0].id, "c1");
  EXPECT_EQ(chat.messages[1].tool_calls[0].arguments, R"({"b":1,"a":[2.50]})");
  EXPECT_EQ(chat.messages[2].tool_call_id, "c1");
  EXPECT_TRUE(chat.continue_last);
  EXPECT_TRUE(chat.keep_reasoning);
  EXPECT_FALSE(chat.parallel_tool_calls);
  ASSERT_EQ(chat.tools.size(), 2U);
  EXPECT_EQ(chat.tools[0].description, "d");
  EXPECT_EQ(chat.tools[0].parameters, R"({"type":"object","z":1e2,"a":1.50})");
  EXPECT_TRUE(chat.tools[0].strict);
  EXPECT_FALSE(chat.tools[1].parameters.has_value());
  EXPECT_EQ(chat.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(chat.tool_choice.name, "g");
}

TEST(RequestParser, FormsOfAnswers) {
  const Case cases[] = {
      {R"("response_format":{"type":"text"})", nullptr},
      {R"("response_format":{"type":"json_object"})", nullptr},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}})",
       nullptr},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"structural_tag"})", "response_format.type"},
      {R"("response_format":{"type":"poem"})", "response_format.type"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":"json")", "response_format"},
      {R"("structured_outputs":{"json":{"type":"object"}})", nullptr},
      {R"("structured_outputs":{"json":"{}"})", nullptr},
      {R"("structured_outputs":{"json":7})", "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a+","disable_any_whitespace":true})", nullptr},
      {R"("structured_outputs":{"regex":""})", "structured_outputs.regex"},
      {R"("structured_outputs":{"choice":["a","b"]})", nullptr},
      {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"choice":["a",7]})", "structured_outputs.choice[1]"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", nullptr},
      {R"("structured_outputs":{"json_object":true})", nullptr},
      {R"("structured_outputs":{"json_object":false})", "structured_outputs.json_object"},
      {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"whitespace_pattern":null})", nullptr},
      {R"("structured_outputs":{"whitespace_pattern":" "})",
       "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs":{"regex":"a","choice":["a"]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"disable_any_whitespace":1})",
       "structured_outputs.disable_any_whitespace"},
      {R"("structured_outputs":[])", "structured_outputs"},
      {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "guided_regex"},
      {R"("guided_json":{})", nullptr},
      {R"("guided_choice":["x"])", nullptr},
      {R"("guided_grammar":7)", "guided_grammar"},
  };
  for (const Case& c : cases) {
    check(Route::kCompletions, c);
    check(Route::kChat, c);
  }
  const auto parsed = parse(Route::kChat, R"("structured_outputs":{"disable_any_whitespace":true,
      "json":{"z":1e2,"a":[]},"disable_additional_properties":true})");
  ASSERT_TRUE(parsed.has_value());
  const Structure& structure = parsed->requests[0].structure;
  EXPECT_EQ(structure.kind, Structure::Kind::kJsonSchema);
  EXPECT_EQ(structure.text, R"({"z":1e2,"a":[]})");
  EXPECT_FALSE(structure.any_whitespace);
  EXPECT_TRUE(structure.disable_additional_properties);
  EXPECT_FALSE(structure.is_shown);
  const auto shown = parse(Route::kChat, R"("response_format":{"type":"json_object"})");
  ASSERT_TRUE(shown.has_value());
  EXPECT_TRUE(shown->requests[0].structure.is_shown);
}

TEST(RequestParser, APromptMayBeScoredAlone) {
  const auto parsed = parse(Route::kCompletions, R"("echo":true,"max_tokens":0,"logprobs":3)");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->form.has_answer);
  EXPECT_EQ(parsed->requests[0].max_tokens, 1) << "the engine chooses one";
  EXPECT_EQ(parsed->requests[0].prompt_logprobs, 3);
  EXPECT_FALSE(parsed->form.prompt_logprobs) << "they are told in the answer's";
  const auto text = parse(Route::kCompletions, R"("prompt":["a","b"],"add_special_tokens":true)");
  ASSERT_TRUE(text.has_value());
  for (const Request& request : text->requests)
    EXPECT_TRUE(std::get<TextPrompt>(request.prompt).add_bos);
}

TEST(RequestParser, SeveralPromptsAreSeveralRequests) {
  const auto parsed = parse_request(Route::kCompletions, R"({"prompt":[[5],[6,7]]})", kNames);
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->requests.size(), 2U);
  EXPECT_EQ(std::get<TokenPrompt>(parsed->requests[1].prompt).ids, (std::vector<int32_t>{6, 7}));
}

TEST(RequestParser, AnotherModelIsNotFound) {
  const auto parsed = parse(Route::kChat, R"("model":"gpt")");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(parsed.error().field, "model");
}

TEST(RequestParser, StopStringsHaveLimits) {
  std::string many = R"("stop":["0")";
  for (int i = 1; i < 17; ++i) many += ",\"" + std::to_string(i) + "\"";
  check(Route::kChat, {(many + "]").c_str(), "stop[16]"});
  const std::string longest(256, 'x');
  check(Route::kChat, {("\"stop\":\"" + longest + "\"").c_str(), nullptr});
  check(Route::kChat, {("\"stop\":\"" + longest + "x\"").c_str(), "stop"});
}

TEST(RequestParser, DeepJsonIsRefused) {
  const std::string deep(100'000, '[');
  const auto parsed = parse_request(Route::kChat, "{\"messages\":" + deep, kNames);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
}

TEST(Fields, NamesAreThereOncePerRoute) {
  for (const Route route : {Route::kChat, Route::kCompletions}) {
    for (const Field& field : request_fields()) {
      const Field* found = find_field(place_of(route), field.name);
      EXPECT_EQ(found == &field, field.is_in(place_of(route))) << field.name;
    }
  }
}

// Null is what absent is, for each field that is not required.
TEST(Fields, NullReadsAsAbsent) {
  for (const Route route : {Route::kChat, Route::kCompletions}) {
    for (const Field& field : request_fields()) {
      const std::string name = field.name;
      if (name == "messages" || name == "prompt") continue;
      EXPECT_TRUE(parse(route, "\"" + name + "\":null").has_value()) << name;
    }
  }
}

// No field that is not supported may be ignored: a value that no neutral one equals is refused by
// name.
TEST(Fields, UnsupportedFieldsAreRefusedByName) {
  for (const Route route : {Route::kChat, Route::kCompletions}) {
    for (const Field& field : request_fields()) {
      if (field.read != nullptr || find_field(place_of(route), field.name) != &field) continue;
      check(route, {("\"" + std::string(field.name) + "\":{\"x\":[3]}").c_str(), field.name});
    }
  }
}

TEST(Fields, TheDocumentHasTheTable) {
  const auto document = read_file(STOKER_SOURCE_DIR "/docs/server.md", 1 << 20);
  ASSERT_TRUE(document.has_value()) << document.error().message;
  EXPECT_NE(document->find("\n" + request_fields_markdown() + "\n"), std::string::npos)
      << "docs/server.md: expected this table:\n"
      << request_fields_markdown();
}

}  // namespace
}  // namespace stoker
