#include "server/answer.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "server/identity.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr const char* kDone = "data: [DONE]\n\n";

std::string number(int64_t value) {
  return std::to_string(value);
}

// Told as the signed number that, sent back as `seed`, gives the same answer.
std::string seed_json(const Stream& stream) {
  return number(static_cast<int64_t>(stream.seed()));
}

std::string finish_members(const Finish& finish) {
  return "\"finish_reason\":" + json_quote(to_string(finish.reason)) +
         ",\"stop_reason\":" + (finish.stop ? json_quote(*finish.stop) : "null");
}

Usage& operator+=(Usage& sum, const Usage& usage) {
  sum.prompt_tokens += usage.prompt_tokens;
  sum.cached_tokens += usage.cached_tokens;
  sum.computed_tokens += usage.computed_tokens;
  sum.completion_tokens += usage.completion_tokens;
  sum.reasoning_tokens += usage.reasoning_tokens;
  return sum;
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

struct Answer::Choice {
  size_t index = 0;
  std::unique_ptr<Stream> stream;
  std::string text;       // without streaming: all so far
  std::string reasoning;  // the same
  int32_t num_tokens = 0;
  std::optional<Finish> finish;
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

Answer::Answer(AnswerHead head, std::vector<std::unique_ptr<Stream>> streams)
    : head_(std::move(head)), num_running_(streams.size()) {
  CHECK(!streams.empty(), "an answer has a choice");
  prefix_ = "{\"id\":" + json_quote(head_.id) + ",\"object\":\"" + object_name(head_) +
            "\",\"created\":" + number(head_.created) + ",\"model\":" + json_quote(head_.model) +
            ",\"system_fingerprint\":" + json_quote(system_fingerprint());
  choices_.resize(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    choices_[i].index = i;
    choices_[i].stream = std::move(streams[i]);
  }
}

Answer::~Answer() = default;

std::string Answer::opening() const {
  std::string out;
  if (head_.route != Route::kChat) return out;
  for (const Choice& choice : choices_) {
    append_chunk(choice, R"("delta":{"role":"assistant","content":""})", "", out);
  }
  return out;
}

void Answer::poll(std::string& out, size_t max_bytes) {
  for (Choice& choice : choices_) {
    while (!choice.finish && !error_ && (!head_.stream || out.size() < max_bytes)) {
      const auto event = choice.stream->poll();
      if (!event) break;
      read(choice, *event, out);
    }
  }
}

void Answer::read(Choice& choice, const Event& event, std::string& out) {
  choice.num_tokens += static_cast<int32_t>(event.ids.size());
  if (event.finish) {
    choice.finish = event.finish;
    timings_ = longest(timings_, event.finish->timings);
    reason_ = event.finish->reason;
    if (reason_ == FinishReason::kCancelled || reason_ == FinishReason::kError) {
      fail(event.finish->error, out);
      return;
    }
    --num_running_;
  }
  if (!head_.stream) {
    choice.reasoning += event.reasoning;
    choice.text += event.text;
    return;
  }
  if (head_.route == Route::kChat) {
    append_delta(choice, "reasoning", event.reasoning, out);
    append_delta(choice, "content", event.text, out);
    if (choice.finish) append_end(choice, "", out);
  } else if (choice.finish) {
    append_end(choice, event.text, out);
  } else if (!event.text.empty()) {
    append_chunk(choice, "\"text\":" + json_quote(event.text), "", out);
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
  for (Choice& choice : choices_) choice.stream->cancel();
  if (head_.stream) out += "data: " + error_json(*error_) + "\n\n" + kDone;
}

void Answer::append_delta(const Choice& choice, const char* member, const std::string& text,
                          std::string& out) const {
  if (text.empty()) return;
  const std::string quoted = json_quote(text);
  std::string delta = "\"delta\":{\"" + std::string(member) + "\":" + quoted;
  // The older name of the same thing, for clients that read only that.
  if (std::string_view(member) == "reasoning") delta += ",\"reasoning_content\":" + quoted;
  append_chunk(choice, delta + "}", "", out);
}

void Answer::append_end(const Choice& choice, const std::string& text, std::string& out) const {
  const std::string content =
      head_.route == Route::kChat ? "\"delta\":{}" : "\"text\":" + json_quote(text);
  std::string end = finish_members(*choice.finish);
  if (choices_.size() > 1) end += ",\"seed\":" + seed_json(*choice.stream);
  append_chunk(choice, content, end, out);
}

// `end`: the members of a choice's last chunk; empty on the others.
void Answer::append_chunk(const Choice& choice, const std::string& content, const std::string& end,
                          std::string& out) const {
  out += "data: " + prefix_ + ",\"choices\":[{\"index\":" + std::to_string(choice.index) + "," +
         content + ",\"logprobs\":null," + (end.empty() ? "\"finish_reason\":null" : end) + "}]";
  if (!end.empty()) out += ",\"seed\":" + seed_json(*choice.stream);
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

Usage Answer::usage() const {
  Usage sum;
  for (const Choice& choice : choices_) {
    Usage so_far;
    so_far.prompt_tokens = static_cast<int32_t>(choice.stream->prompt_ids().size());
    so_far.completion_tokens = choice.num_tokens;
    sum += choice.finish ? choice.finish->usage : so_far;
  }
  return sum;
}

std::string Answer::choice_json(const Choice& choice) const {
  std::string out = "{\"index\":" + std::to_string(choice.index);
  if (head_.route == Route::kChat) {
    out += ",\"message\":{\"role\":\"assistant\",\"content\":" + json_quote(choice.text);
    if (!choice.reasoning.empty()) {
      const std::string reasoning = json_quote(choice.reasoning);
      out += ",\"reasoning_content\":" + reasoning + ",\"reasoning\":" + reasoning;
    }
    out += ",\"refusal\":null}";
  } else {
    out += ",\"text\":" + json_quote(choice.text);
  }
  out += ",\"logprobs\":null," + finish_members(*choice.finish);
  if (choices_.size() > 1) out += ",\"seed\":" + seed_json(*choice.stream);
  return out + "}";
}

std::string Answer::body() const {
  std::string out = prefix_ + ",\"choices\":[";
  for (const Choice& choice : choices_) {
    if (choice.index > 0) out += ",";
    out += choice_json(choice);
  }
  return out + "],\"usage\":" + usage_json(usage(), true) +
         ",\"seed\":" + seed_json(*choices_.front().stream) + "}";
}

}  // namespace stoker
