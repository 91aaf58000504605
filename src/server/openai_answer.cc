#include "server/openai_answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "server/answer_json.h"
#include "server/identity.h"
#include "server/logprobs_json.h"
#include "stoker/version.h"

namespace stoker {
namespace {

const char* object_name(const AnswerForm& form) {
  if (form.route == Route::kCompletions) return "text_completion";
  return form.stream ? "chat.completion.chunk" : "chat.completion";
}

}  // namespace

// What is told of a prompt beside its ids.
struct OpenAiAnswer::ToldPrompt {
  std::string echo;                             // its text, if that is told
  std::vector<PositionLogprobs> logprobs = {};  // if it asks for them
};

// What is told of a choice beside what every answer has of it.
struct OpenAiAnswer::ToldChoice {
  LogprobsJson logprobs;
  std::vector<int32_t> ids = {};           // if they are told: all so far, or since the last chunk
  std::vector<std::string> call_ids = {};  // without streaming: of all calls so far
  bool is_begun = false;                   // a chunk of it was written
};

std::string system_fingerprint() {
  return std::string("stoker-") + version();
}

OpenAiAnswer::OpenAiAnswer(const AnswerForm& form, const std::string& request_id,
                           std::vector<std::unique_ptr<Stream>> streams, const Engine& engine)
    : Answer(std::move(streams), form.stream, form.has_answer), form_(form), engine_(engine) {
  const std::string id =
      (form_.route == Route::kChat ? kChatPrefix : kCompletionPrefix) + request_id;
  prefix_ = "{\"id\":" + json_quote(id) + ",\"object\":\"" + object_name(form_) +
            "\",\"created\":" + std::to_string(unix_seconds()) +
            ",\"model\":" + json_quote(form_.model) +
            ",\"system_fingerprint\":" + json_quote(system_fingerprint());
  for (const auto& stream : this->streams()) {
    std::string echo;
    if (form_.echo) {  // fails only without a tokenizer, where nothing is text
      if (auto text = engine.decode(stream->prompt_ids())) echo = *std::move(text);
    }
    told_prompts_.push_back({std::move(echo)});
  }
  for (size_t i = 0; i < choices().size(); ++i)
    told_.push_back({{engine, form_.route, form_.tokens_as_ids, form_.all_logprobs}});
  const auto num_told = form_.num_choices;
  keeps_logprobs_ =
      form_.logprobs || std::ranges::any_of(this->streams(), [num_told](const auto& stream) {
        return stream->num_choices() > num_told;  // the likeliest are told
      });
}

OpenAiAnswer::~OpenAiAnswer() = default;

std::string OpenAiAnswer::opening() {
  std::string out;
  for (const Choice& choice : choices()) {
    if (form_.route == Route::kChat) {
      append_chunk(choice, R"("delta":{"role":"assistant","content":""})", "", out);
    } else if (form_.echo) {
      append_chunk(choice, "\"text\":" + json_quote(told_prompts_[choice.prompt].echo), "", out);
    }
  }
  return out;
}

void OpenAiAnswer::tell(Choice& choice, Event& event, std::string& out) {
  ToldChoice& told = told_[choice.index];
  if (!event.prompt_logprobs.empty())
    told_prompts_[choice.prompt].logprobs = std::move(event.prompt_logprobs);
  if (keeps_logprobs_) told.logprobs.add(event);
  if (form_.return_token_ids) told.ids.insert(told.ids.end(), event.ids.begin(), event.ids.end());
  if (is_streamed()) return write(choice, event, out);
  while (told.call_ids.size() < choice.calls.calls.size())
    told.call_ids.push_back(call_ids_.next_call("call_"));
}

// As events of the stream.
void OpenAiAnswer::write(Choice& choice, const Event& event, std::string& out) {
  if (event.prompt_progress) append_progress(choice, *event.prompt_progress, out);
  if (form_.route == Route::kChat) {
    if (form_.include_reasoning) append_delta(choice, "reasoning", event.reasoning, out);
    append_delta(choice, "content", event.text, out);
    append_calls(choice, event.calls, out);
    if (choice.finish) append_end(choice, "", out);
  } else if (choice.finish) {
    append_end(choice, event.text, out);
  } else if (!event.text.empty()) {
    append_chunk(choice, "\"text\":" + json_quote(event.text), "", out);
  }
  if (finished()) {
    if (form_.include_usage) append_usage_chunk(out);
    out += kDoneEvent;
  }
}

void OpenAiAnswer::tell_failure(const HttpError& error, std::string& out) const {
  out += "data: " + error_json(error) + "\n\n" + kDoneEvent;
}

void OpenAiAnswer::append_delta(Choice& choice, const char* member, const std::string& text,
                                std::string& out) {
  if (text.empty()) return;
  const std::string quoted = json_quote(text);
  std::string delta = "\"delta\":{\"" + std::string(member) + "\":" + quoted;
  // The older name of the same thing, for clients that read only that.
  if (std::string_view(member) == "reasoning") delta += ",\"reasoning_content\":" + quoted;
  append_chunk(choice, delta + "}", "", out);
}

// The name in a chunk of its own, with the id; then pieces of the arguments.
void OpenAiAnswer::append_calls(Choice& choice, const std::vector<CallPiece>& pieces,
                                std::string& out) {
  for (const CallPiece& piece : pieces) {
    const std::string head = "\"delta\":{\"tool_calls\":[{\"index\":" + std::to_string(piece.call);
    if (piece.name) {
      append_chunk(choice,
                   head + ",\"id\":\"" + call_ids_.next_call("call_") +
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
std::string OpenAiAnswer::end_members(const Finish& finish) const {
  const bool is_named = form_.names_tool && finish.reason == FinishReason::kCalls;
  return finish_members(finish, is_named ? FinishReason::kStop : finish.reason);
}

void OpenAiAnswer::append_end(Choice& choice, const std::string& text, std::string& out) {
  const std::string content =
      form_.route == Route::kChat ? "\"delta\":{}" : "\"text\":" + json_quote(text);
  std::string end = end_members(*choice.finish);
  if (choices().size() > 1) end += ",\"seed\":" + seed_json(choice.finish->seed);
  end += receipt_member(*choice.finish);
  append_chunk(choice, content, end, out);
}

// `end`: the members of a choice's last chunk; empty on the others.
void OpenAiAnswer::append_chunk(const Choice& choice, const std::string& content,
                                const std::string& end, std::string& out, const std::string& more) {
  ToldChoice& told = told_[choice.index];
  // Appended piece by piece: this is most of what a token costs here.
  out.append("data: ").append(prefix_).append(R"(,"choices":[{"index":)");
  out.append(std::to_string(choice.index)).append(",").append(content).append(R"(,"logprobs":)");
  out.append(form_.logprobs ? told.logprobs.take(false) : "null").append(",");
  out.append(end.empty() ? R"("finish_reason":null)" : end);
  if (form_.return_token_ids) {
    if (!std::exchange(told.is_begun, true)) out += prompt_ids_member(choice.prompt);
    out += ",\"token_ids\":" + ids_json(std::exchange(told.ids, {}));
  }
  out += "}]";
  if (!end.empty()) out += ",\"seed\":" + seed_json(streams()[choice.prompt]->seed());
  if (form_.continuous_usage_stats) {
    out += ",\"usage\":" + usage_json(usage(), finished());
  } else if (form_.include_usage) {
    out += ",\"usage\":null";
  }
  out += more + "}\n\n";
}

// A chunk without text, beside whose choice stands how much of its prompt is read.
void OpenAiAnswer::append_progress(const Choice& choice, const PromptProgress& progress,
                                   std::string& out) {
  Json told = Json::object();
  told.set("total", Json::integer(progress.total_tokens));
  told.set("cache", Json::integer(progress.cached_tokens));
  told.set("processed", Json::integer(progress.processed_tokens));
  told.set("time_ms", Json::real(std::round(progress.time.count() * 1e6) / 1e3));
  append_chunk(choice, form_.route == Route::kChat ? "\"delta\":{}" : "\"text\":\"\"", "", out,
               ",\"prompt_progress\":" + told.dump());
}

void OpenAiAnswer::append_usage_chunk(std::string& out) const {
  out += "data: " + prefix_ + ",\"choices\":[],\"usage\":" + usage_json(usage(), true) +
         metrics_member() + "}\n\n";
}

// Of one choice; of several there is no one time.
std::string OpenAiAnswer::metrics_member() const {
  if (!form_.metrics) return "";
  if (choices().size() != 1) return ",\"metrics\":null";
  const auto milliseconds = [](Seconds time) { return Json::real(time.count() * 1e3); };
  const Seconds generation = timings().total - timings().first_token;
  const int32_t num_later = usage().completion_tokens - 1;
  const bool has_later = num_later > 0 && generation.count() > 0;
  Json out = Json::object();
  out.set("time_to_first_token_ms", milliseconds(timings().first_token));
  out.set("generation_time_ms", milliseconds(generation));
  out.set("queue_time_ms", milliseconds(timings().queued));
  out.set("mean_itl_ms", has_later ? milliseconds(generation / num_later) : Json());
  out.set("tokens_per_second", has_later ? Json::real(num_later / generation.count()) : Json());
  return ",\"metrics\":" + out.dump();
}

std::string OpenAiAnswer::calls_json(const Choice& choice) const {
  std::string out = "[";
  for (size_t i = 0; i < choice.calls.calls.size(); ++i) {
    const ToolCall& call = choice.calls.calls[i];
    if (i > 0) out += ",";
    out += "{\"id\":\"" + told_[choice.index].call_ids[i] +
           "\",\"type\":\"function\",\"function\":{\"name\":" + json_quote(call.name) +
           ",\"arguments\":" + json_quote(call.arguments) + "}}";
  }
  return out + "]";
}

std::string OpenAiAnswer::choice_json(const Choice& choice, size_t index) {
  ToldChoice& told = told_[choice.index];
  const ToldPrompt& prompt = told_prompts_[choice.prompt];
  std::string out = "{\"index\":" + std::to_string(index);
  if (form_.route == Route::kChat) {
    const bool has_calls = !choice.calls.calls.empty();
    out += ",\"message\":{\"role\":\"assistant\",\"content\":" +
           (has_calls && choice.text.empty() ? "null" : json_quote(choice.text));
    if (form_.include_reasoning && !choice.reasoning.empty()) {
      const std::string reasoning = json_quote(choice.reasoning);
      out += ",\"reasoning_content\":" + reasoning + ",\"reasoning\":" + reasoning;
    }
    if (has_calls) out += ",\"tool_calls\":" + calls_json(choice);
    out += ",\"refusal\":null}";
  } else {
    out += ",\"text\":" + json_quote(prompt.echo + choice.text);
  }
  if (form_.echo && form_.logprobs)
    told.logprobs.add_prompt(prompt_ids(choice.prompt), prompt.logprobs,
                             static_cast<size_t>(form_.num_top));
  out += ",\"logprobs\":" + (form_.logprobs ? told.logprobs.take(true) : "null") + "," +
         end_members(*choice.finish);
  if (form_.return_token_ids) out += ",\"token_ids\":" + ids_json(told.ids);
  if (form_.route == Route::kCompletions)
    out += prompt_logprobs_member(choice.prompt) + prompt_ids_member(choice.prompt);
  if (choices().size() > 1) out += ",\"seed\":" + seed_json(choice.finish->seed);
  return out + receipt_member(*choice.finish) + "}";
}

const std::vector<int32_t>& OpenAiAnswer::prompt_ids(size_t prompt) const {
  return streams()[prompt]->prompt_ids();
}

std::string OpenAiAnswer::prompt_logprobs_member(size_t prompt) const {
  const auto& logprobs = told_prompts_[prompt].logprobs;
  if (!form_.prompt_logprobs || logprobs.empty()) return "";
  return ",\"prompt_logprobs\":" + prompt_logprobs_json(engine_, prompt_ids(prompt), logprobs);
}

std::string OpenAiAnswer::prompt_ids_member(size_t prompt) const {
  if (!form_.return_token_ids) return "";
  return ",\"prompt_token_ids\":" + ids_json(prompt_ids(prompt));
}

// The choices that are told: all, or those of each prompt that are the likeliest, best first.
std::vector<const Answer::Choice*> OpenAiAnswer::told_choices() const {
  std::vector<const Choice*> told;
  for (size_t first = 0; first < choices().size();) {
    std::vector<const Choice*> of_prompt;
    const auto count = static_cast<size_t>(streams()[choices()[first].prompt]->num_choices());
    for (size_t i = first; i < first + count; ++i) of_prompt.push_back(&choices()[i]);
    first += count;
    const auto num_told = static_cast<size_t>(form_.num_choices);
    if (num_told < count) {
      std::stable_sort(of_prompt.begin(), of_prompt.end(),
                       [this](const Choice* a, const Choice* b) {
                         return told_[a->index].logprobs.mean() > told_[b->index].logprobs.mean();
                       });
      of_prompt.resize(num_told);
    }
    told.insert(told.end(), of_prompt.begin(), of_prompt.end());
  }
  return told;
}

std::string OpenAiAnswer::body() {
  std::string out = prefix_ + ",\"choices\":[";
  size_t index = 0;
  for (const Choice* choice : told_choices()) {
    if (index > 0) out += ",";
    out += choice_json(*choice, index++);
  }
  out += "],\"usage\":" + usage_json(usage(), true) + metrics_member();
  if (form_.route == Route::kChat) out += prompt_logprobs_member(0) + prompt_ids_member(0);
  return out + ",\"seed\":" + seed_json(streams().front()->seed()) + "}";
}

}  // namespace stoker
