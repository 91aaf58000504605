#include "server/answer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "server/identity.h"
#include "server/logprobs_json.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr const char* kDone = "data: [DONE]\n\n";

std::string number(int64_t value) {
  return std::to_string(value);
}

// Told as the signed number that, sent back as `seed`, gives the same answer.
std::string seed_json(uint64_t seed) {
  return number(static_cast<int64_t>(seed));
}

// Of a prompt that is scored alone: the token that the engine chose behind it is not told.
void hide_answer(Finish& finish) {
  finish.reason = FinishReason::kLength;
  finish.stop.reset();
  finish.stop_token.reset();
  finish.usage.completion_tokens = 0;
  finish.usage.reasoning_tokens = 0;
  finish.receipt.clear();
}

std::string ids_json(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (const int32_t id : ids) {
    if (out.size() > 1) out += ",";
    out += std::to_string(id);
  }
  return out + "]";
}

// What parse_receipt reads is JSON already.
std::string receipt_member(const Finish& finish) {
  return finish.receipt.empty() ? "" : ",\"receipt\":" + finish.receipt;
}

std::string call_id(IdSource& ids) {
  constexpr size_t kDigits = 24;
  return "call_" + ids.next().substr(0, kDigits);
}

Timings longest(const Timings& a, const Timings& b) {
  return {std::max(a.queued, b.queued), std::max(a.first_token, b.first_token),
          std::max(a.total, b.total)};
}

const char* object_name(const AnswerHead& head) {
  if (head.route == Route::kCompletions) return "text_completion";
  return head.stream ? "chat.completion.chunk" : "chat.completion";
}

}  // namespace

struct Answer::Prompt {
  std::unique_ptr<Stream> stream;
  std::string echo;                               // its text, if that is told
  int32_t num_running = 0;                        // of its choices
  std::vector<PositionLogprobs> prompt_logprobs;  // if it asks for them
};

struct Answer::Choice {
  size_t index = 0;   // among all
  size_t prompt = 0;  // of prompts_
  LogprobsJson logprobs;
  std::vector<int32_t> ids;  // if they are told: all so far, or since the last chunk
  std::string text;          // without streaming: all so far
  std::string reasoning;     // the same
  int32_t num_tokens = 0;
  CollectedCalls calls;  // the same
  std::vector<std::string> call_ids;
  std::optional<Finish> finish;
  bool is_begun = false;  // a chunk of it was written
};

AnswerHead head_of(const ParsedRequest& parsed, const std::string& request_id) {
  AnswerHead head;
  head.route = parsed.route;
  head.id = (parsed.route == Route::kChat ? "chatcmpl-" : "cmpl-") + request_id;
  head.created = unix_seconds();
  head.model = parsed.model;
  head.stream = parsed.stream;
  head.include_usage = parsed.include_usage;
  head.continuous_usage_stats = parsed.continuous_usage_stats;
  head.num_choices = parsed.num_choices;
  head.logprobs = parsed.logprobs;
  head.prompt_logprobs = parsed.prompt_logprobs;
  head.num_top = static_cast<size_t>(parsed.num_top);
  head.echo = parsed.echo;
  head.has_answer = parsed.has_answer;
  head.include_reasoning = parsed.include_reasoning;
  head.names_tool = parsed.names_tool;
  head.return_token_ids = parsed.return_token_ids;
  head.tokens_as_ids = parsed.tokens_as_ids;
  return head;
}

std::string system_fingerprint() {
  return std::string("stoker-") + version();
}

std::string usage_json(const Usage& usage, bool is_whole) {
  const int64_t total = int64_t{usage.prompt_tokens} + usage.completion_tokens;
  std::string out = "{\"prompt_tokens\":" + number(usage.prompt_tokens) +
                    ",\"completion_tokens\":" + number(usage.completion_tokens) +
                    ",\"total_tokens\":" + number(total);
  if (is_whole) {
    out +=
        ",\"prompt_tokens_details\":{\"cached_tokens\":" + number(usage.cached_tokens) +
        "},\"completion_tokens_details\":{\"reasoning_tokens\":" + number(usage.reasoning_tokens) +
        "},\"prompt_cache_hit_tokens\":" + number(usage.cached_tokens) +
        ",\"prompt_cache_miss_tokens\":" + number(usage.prompt_tokens - usage.cached_tokens);
  }
  return out + "}";
}

Answer::Answer(AnswerHead head, std::vector<std::unique_ptr<Stream>> streams, const Engine& engine)
    : head_(std::move(head)), engine_(engine) {
  CHECK(!streams.empty(), "an answer has a choice");
  prefix_ = "{\"id\":" + json_quote(head_.id) + ",\"object\":\"" + object_name(head_) +
            "\",\"created\":" + number(head_.created) + ",\"model\":" + json_quote(head_.model) +
            ",\"system_fingerprint\":" + json_quote(system_fingerprint());
  for (auto& stream : streams) {
    const int32_t num_choices = stream->num_choices();
    for (int32_t i = 0; i < num_choices; ++i) {
      choices_.push_back({choices_.size(),
                          prompts_.size(),
                          {engine, head_.route, head_.tokens_as_ids},
                          {},
                          {},
                          {},
                          0,
                          {},
                          {},
                          {}});
    }
    std::string echo;
    if (head_.echo) {  // fails only without a tokenizer, where nothing is text
      if (auto text = engine.decode(stream->prompt_ids())) echo = *std::move(text);
    }
    prompts_.push_back({std::move(stream), std::move(echo), num_choices, {}});
  }
  num_running_ = choices_.size();
}

Answer::~Answer() = default;

std::string Answer::opening() {
  std::string out;
  for (Choice& choice : choices_) {
    if (head_.route == Route::kChat) {
      append_chunk(choice, R"("delta":{"role":"assistant","content":""})", "", out);
    } else if (head_.echo) {
      append_chunk(choice, "\"text\":" + json_quote(prompts_[choice.prompt].echo), "", out);
    }
  }
  return out;
}

void Answer::poll(std::string& out, size_t max_bytes) {
  size_t first = 0;  // choice of the prompt
  for (Prompt& prompt : prompts_) {
    while (prompt.num_running > 0 && !error_ && (!head_.stream || out.size() < max_bytes)) {
      auto event = prompt.stream->poll();
      if (!event) break;
      if (event->finish) --prompt.num_running;
      if (!event->prompt_logprobs.empty())
        prompt.prompt_logprobs = std::move(event->prompt_logprobs);
      read(choices_[first + static_cast<size_t>(event->choice)], *event, out);
    }
    first += static_cast<size_t>(prompt.stream->num_choices());
  }
}

void Answer::read(Choice& choice, const Event& event, std::string& out) {
  if (head_.has_answer) {
    choice.num_tokens += static_cast<int32_t>(event.ids.size());
    choice.logprobs.add(event);
    if (head_.return_token_ids)
      choice.ids.insert(choice.ids.end(), event.ids.begin(), event.ids.end());
  }
  if (event.finish) {
    choice.finish = event.finish;
    if (!head_.has_answer) hide_answer(*choice.finish);
    timings_ = longest(timings_, event.finish->timings);
    reason_ = event.finish->reason;
    if (reason_ == FinishReason::kCancelled || reason_ == FinishReason::kError) {
      fail(event.finish->error, out);
      return;
    }
    --num_running_;
  }
  if (head_.stream) {
    write(choice, event, out);
  } else if (head_.has_answer) {
    if (head_.include_reasoning) choice.reasoning += event.reasoning;
    choice.text += event.text;
    choice.calls.add(event.calls);
    for (size_t i = choice.call_ids.size(); i < choice.calls.calls.size(); ++i)
      choice.call_ids.push_back(call_id(call_ids_));
    if (choice.finish) choice.text += choice.calls.finish(*choice.finish);
  }
}

// As events of the stream.
void Answer::write(Choice& choice, const Event& event, std::string& out) {
  const std::string text = head_.has_answer ? event.text : "";
  if (head_.route == Route::kChat) {
    if (head_.include_reasoning) append_delta(choice, "reasoning", event.reasoning, out);
    append_delta(choice, "content", text, out);
    append_calls(choice, event.calls, out);
    if (choice.finish) append_end(choice, "", out);
  } else if (choice.finish) {
    append_end(choice, text, out);
  } else if (!text.empty()) {
    append_chunk(choice, "\"text\":" + json_quote(text), "", out);
  }
  if (finished()) {
    if (head_.include_usage) append_usage_chunk(out);
    out += kDone;
  }
}

// One choice that fails ends the others.
void Answer::fail(const std::optional<Error>& error, std::string& out) {
  if (error) {
    error_ = to_http_error(*error);
  } else {
    error_ = {503, "the server stopped before the answer was finished", "", ""};
  }
  num_running_ = 0;
  for (Prompt& prompt : prompts_) prompt.stream->cancel();
  if (head_.stream) out += "data: " + error_json(*error_) + "\n\n" + kDone;
}

void Answer::append_delta(Choice& choice, const char* member, const std::string& text,
                          std::string& out) const {
  if (text.empty()) return;
  const std::string quoted = json_quote(text);
  std::string delta = "\"delta\":{\"" + std::string(member) + "\":" + quoted;
  // The older name of the same thing, for clients that read only that.
  if (std::string_view(member) == "reasoning") delta += ",\"reasoning_content\":" + quoted;
  append_chunk(choice, delta + "}", "", out);
}

// The name in a chunk of its own, with the id; then pieces of the arguments.
void Answer::append_calls(Choice& choice, const std::vector<CallPiece>& pieces, std::string& out) {
  for (const CallPiece& piece : pieces) {
    const std::string head = "\"delta\":{\"tool_calls\":[{\"index\":" + std::to_string(piece.call);
    if (piece.name) {
      append_chunk(choice,
                   head + ",\"id\":\"" + call_id(call_ids_) +
                       "\",\"type\":\"function\",\"function\":{\"name\":" +
                       json_quote(*piece.name) + ",\"arguments\":\"\"}}]}",
                   "", out);
    }
    if (piece.arguments.empty()) continue;
    append_chunk(choice,
                 head + ",\"function\":{\"arguments\":" + json_quote(piece.arguments) + "}}]}", "",
                 out);
  }
}

// A call that was asked for by its name ends with "stop", as clients know it.
std::string Answer::finish_members(const Finish& finish) const {
  const FinishReason reason = head_.names_tool && finish.reason == FinishReason::kCalls
                                  ? FinishReason::kStop
                                  : finish.reason;
  std::string stop = "null";
  if (finish.stop) stop = json_quote(*finish.stop);
  if (finish.stop_token) stop = number(*finish.stop_token);
  return "\"finish_reason\":" + json_quote(to_string(reason)) + ",\"stop_reason\":" + stop;
}

void Answer::append_end(Choice& choice, const std::string& text, std::string& out) const {
  const std::string content =
      head_.route == Route::kChat ? "\"delta\":{}" : "\"text\":" + json_quote(text);
  std::string end = finish_members(*choice.finish);
  if (choices_.size() > 1) end += ",\"seed\":" + seed_json(choice.finish->seed);
  end += receipt_member(*choice.finish);
  append_chunk(choice, content, end, out);
}

// `end`: the members of a choice's last chunk; empty on the others.
void Answer::append_chunk(Choice& choice, const std::string& content, const std::string& end,
                          std::string& out) const {
  out += "data: " + prefix_ + ",\"choices\":[{\"index\":" + std::to_string(choice.index) + "," +
         content + ",\"logprobs\":" + (head_.logprobs ? choice.logprobs.take(false) : "null") +
         "," + (end.empty() ? "\"finish_reason\":null" : end);
  if (head_.return_token_ids) {
    if (!std::exchange(choice.is_begun, true)) out += prompt_ids_member(prompts_[choice.prompt]);
    out += ",\"token_ids\":" + ids_json(std::exchange(choice.ids, {}));
  }
  out += "}]";
  if (!end.empty()) out += ",\"seed\":" + seed_json(prompts_[choice.prompt].stream->seed());
  if (head_.continuous_usage_stats) {
    out += ",\"usage\":" + usage_json(usage(), finished());
  } else if (head_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void Answer::append_usage_chunk(std::string& out) const {
  out += "data: " + prefix_ + ",\"choices\":[],\"usage\":" + usage_json(usage(), true) + "}\n\n";
}

// Prompts count once, whatever the number of their choices.
Usage Answer::usage() const {
  Usage sum;
  for (const Prompt& prompt : prompts_)
    sum.prompt_tokens += static_cast<int32_t>(prompt.stream->prompt_ids().size());
  const Choice* before = nullptr;
  for (const Choice& choice : choices_) {
    const bool is_first = before == nullptr || before->prompt != choice.prompt;
    before = &choice;
    sum.completion_tokens +=
        choice.finish ? choice.finish->usage.completion_tokens : choice.num_tokens;
    if (!choice.finish) continue;
    sum.computed_tokens += choice.finish->usage.computed_tokens;
    sum.reasoning_tokens += choice.finish->usage.reasoning_tokens;
    if (is_first) sum.cached_tokens += choice.finish->usage.cached_tokens;
  }
  return sum;
}

std::string Answer::calls_json(const Choice& choice) const {
  std::string out = "[";
  for (size_t i = 0; i < choice.calls.calls.size(); ++i) {
    const ToolCall& call = choice.calls.calls[i];
    if (i > 0) out += ",";
    out += "{\"id\":\"" + choice.call_ids[i] +
           "\",\"type\":\"function\",\"function\":{\"name\":" + json_quote(call.name) +
           ",\"arguments\":" + json_quote(call.arguments) + "}}";
  }
  return out + "]";
}

std::string Answer::choice_json(Choice& choice, size_t index) const {
  const Prompt& prompt = prompts_[choice.prompt];
  std::string out = "{\"index\":" + std::to_string(index);
  if (head_.route == Route::kChat) {
    const bool has_calls = !choice.calls.calls.empty();
    out += ",\"message\":{\"role\":\"assistant\",\"content\":" +
           (has_calls && choice.text.empty() ? "null" : json_quote(choice.text));
    if (!choice.reasoning.empty()) {
      const std::string reasoning = json_quote(choice.reasoning);
      out += ",\"reasoning_content\":" + reasoning + ",\"reasoning\":" + reasoning;
    }
    if (has_calls) out += ",\"tool_calls\":" + calls_json(choice);
    out += ",\"refusal\":null}";
  } else {
    out += ",\"text\":" + json_quote(prompt.echo + choice.text);
  }
  if (head_.echo && head_.logprobs)
    choice.logprobs.add_prompt(prompt.stream->prompt_ids(), prompt.prompt_logprobs, head_.num_top);
  out += ",\"logprobs\":" + (head_.logprobs ? choice.logprobs.take(true) : "null") + "," +
         finish_members(*choice.finish);
  if (head_.return_token_ids) out += ",\"token_ids\":" + ids_json(choice.ids);
  if (head_.route == Route::kCompletions)
    out += prompt_logprobs_member(prompt) + prompt_ids_member(prompt);
  if (choices_.size() > 1) out += ",\"seed\":" + seed_json(choice.finish->seed);
  return out + receipt_member(*choice.finish) + "}";
}

std::string Answer::prompt_logprobs_member(const Prompt& prompt) const {
  if (!head_.prompt_logprobs || prompt.prompt_logprobs.empty()) return "";
  return ",\"prompt_logprobs\":" +
         prompt_logprobs_json(engine_, prompt.stream->prompt_ids(), prompt.prompt_logprobs);
}

std::string Answer::prompt_ids_member(const Prompt& prompt) const {
  if (!head_.return_token_ids) return "";
  return ",\"prompt_token_ids\":" + ids_json(prompt.stream->prompt_ids());
}

// The choices that are told: all, or those of each prompt that are the likeliest, best first.
std::vector<Answer::Choice*> Answer::told_choices() {
  std::vector<Choice*> told;
  for (size_t first = 0; first < choices_.size();) {
    std::vector<Choice*> of_prompt;
    const auto count = static_cast<size_t>(prompts_[choices_[first].prompt].stream->num_choices());
    for (size_t i = first; i < first + count; ++i) of_prompt.push_back(&choices_[i]);
    first += count;
    const auto num_told = static_cast<size_t>(head_.num_choices);
    if (num_told < count) {
      std::stable_sort(of_prompt.begin(), of_prompt.end(), [](const Choice* a, const Choice* b) {
        return a->logprobs.mean() > b->logprobs.mean();
      });
      of_prompt.resize(num_told);
    }
    told.insert(told.end(), of_prompt.begin(), of_prompt.end());
  }
  return told;
}

std::string Answer::body() {
  std::string out = prefix_ + ",\"choices\":[";
  size_t index = 0;
  for (Choice* choice : told_choices()) {
    if (index > 0) out += ",";
    out += choice_json(*choice, index++);
  }
  out += "],\"usage\":" + usage_json(usage(), true);
  if (head_.route == Route::kChat)
    out += prompt_logprobs_member(prompts_.front()) + prompt_ids_member(prompts_.front());
  return out + ",\"seed\":" + seed_json(prompts_.front().stream->seed()) + "}";
}

}  // namespace stoker
