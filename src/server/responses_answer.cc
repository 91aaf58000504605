#include "server/responses_answer.h"

#include <utility>

#include "base/json.h"
#include "server/answer_json.h"

namespace stoker {
namespace {

// The code of a failure, of those that clients know.
const char* code_of(const HttpError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status == 400 ? "invalid_prompt" : "server_error";
}

bool is_cut(const Finish& finish) {
  return finish.reason == FinishReason::kLength || finish.reason == FinishReason::kRepetition;
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(const AnswerForm& form, const std::string& request_id,
                                 std::vector<std::unique_ptr<Stream>> streams, const Engine& engine)
    : Answer(std::move(streams), form.stream, true),
      form_(form),
      id_(kResponsePrefix + request_id),
      created_(unix_seconds()),
      logprobs_(engine, form.route, form.tokens_as_ids) {}

std::string ResponsesAnswer::opening() {
  std::string out;
  const std::string member = "\"response\":" + response_json(Status::kInProgress, "null");
  append_event("response.created", member, out);
  append_event("response.in_progress", member, out);
  return out;
}

void ResponsesAnswer::tell(Choice& choice, Event& event, std::string& out) {
  logprobs_.add(event);
  if (!is_streamed()) return;
  add_text(Kind::kReasoning, event.reasoning, out);
  add_text(Kind::kMessage, event.text, out);
  for (const CallPiece& piece : event.calls) add_call(piece, out);
  if (!choice.finish) return;
  end_items(*choice.finish, out);
  append_event(is_cut(*choice.finish) ? "response.incomplete" : "response.completed",
               "\"response\":" + ended_response_json(*choice.finish), out);
}

void ResponsesAnswer::tell_failure(const HttpError& error, std::string& out) const {
  const std::string failure = std::string("{\"code\":\"") + code_of(error) +
                              "\",\"message\":" + json_quote(error.message) + "}";
  out += named_event("response.failed",
                     "\"sequence_number\":" + std::to_string(num_events_) +
                         ",\"response\":" + response_json(Status::kFailed, failure));
}

// The items of a whole answer are those that a stream would tell.
std::string ResponsesAnswer::body() {
  const Choice& choice = choices().front();
  std::string no_events;
  add_text(Kind::kReasoning, choice.reasoning, no_events);
  add_text(Kind::kMessage, choice.text, no_events);
  const size_t num_calls = choice.calls.calls.size();
  for (size_t i = 0; i < num_calls; ++i) {
    const ToolCall& call = choice.calls.calls[i];
    const bool is_whole = i + 1 < num_calls || !choice.calls.is_cut;
    add_call({static_cast<int32_t>(i), call.name, call.arguments, is_whole}, no_events);
  }
  end_items(*choice.finish, no_events);
  return ended_response_json(*choice.finish);
}

void ResponsesAnswer::add_text(Kind kind, const std::string& text, std::string& out) {
  if (text.empty() || (kind == Kind::kReasoning && !form_.include_reasoning)) return;
  if (!is_open(kind)) open({kind, ids_.next_call(kind == Kind::kMessage ? "msg_" : "rs_")}, out);
  append_delta(text, out);
}

void ResponsesAnswer::add_call(const CallPiece& piece, std::string& out) {
  if (piece.name) {
    Item item{Kind::kCall, ids_.next_call("fc_")};
    item.name = *piece.name;
    item.call_id = ids_.next_call("call_");
    open(std::move(item), out);
  }
  if (!piece.arguments.empty()) append_delta(piece.arguments, out);
  if (piece.is_last) close(Status::kCompleted, out);
}

// To the item that is open.
void ResponsesAnswer::append_delta(const std::string& text, std::string& out) {
  Item& item = items_.back();
  item.text += text;
  std::string members = place_members() + ",\"delta\":" + json_quote(text);
  if (item.kind == Kind::kMessage) {
    const std::string logprobs = logprobs_.take_content();
    if (!item.logprobs.empty() && !logprobs.empty()) item.logprobs += ",";
    item.logprobs += logprobs;
    members += ",\"logprobs\":[" + logprobs + "]";
  }
  append_event((std::string(events_of(item.kind)) + ".delta").c_str(), members, out);
}

// A call that is open at the end is cut off, whatever ended it.
void ResponsesAnswer::end_items(const Finish& finish, std::string& out) {
  close(is_cut(finish) || is_open(Kind::kCall) ? Status::kIncomplete : Status::kCompleted, out);
}

// Begins an item behind the one before.
void ResponsesAnswer::open(Item item, std::string& out) {
  close(Status::kCompleted, out);
  items_.push_back(std::move(item));
  append_event("response.output_item.added",
               index_member() + ",\"item\":" + item_json(items_.back()), out);
  if (items_.back().kind == Kind::kCall) return;
  append_event("response.content_part.added",
               place_members() + ",\"part\":" + part_json(items_.back()), out);
}

// Ends the item that is open, if there is one.
void ResponsesAnswer::close(Status status, std::string& out) {
  if (items_.empty() || items_.back().status != Status::kInProgress) return;
  Item& item = items_.back();
  item.status = status;
  const bool is_call = item.kind == Kind::kCall;
  std::string members =
      place_members() + (is_call ? ",\"arguments\":" : ",\"text\":") + json_quote(item.text);
  if (item.kind == Kind::kMessage) members += ",\"logprobs\":[" + item.logprobs + "]";
  append_event((std::string(events_of(item.kind)) + ".done").c_str(), members, out);
  if (!is_call) {
    append_event("response.content_part.done", place_members() + ",\"part\":" + part_json(item),
                 out);
  }
  append_event("response.output_item.done", index_member() + ",\"item\":" + item_json(item), out);
}

bool ResponsesAnswer::is_open(Kind kind) const {
  return !items_.empty() && items_.back().kind == kind &&
         items_.back().status == Status::kInProgress;
}

// Of a whole answer there are none.
void ResponsesAnswer::append_event(const char* name, const std::string& members, std::string& out) {
  if (!is_streamed()) return;
  out += named_event(name, "\"sequence_number\":" + std::to_string(num_events_++) + "," + members);
}

// ---- JSON

const char* ResponsesAnswer::word_of_status(Status status) {
  switch (status) {
    case Status::kInProgress:
      return "in_progress";
    case Status::kCompleted:
      return "completed";
    case Status::kIncomplete:
      return "incomplete";
    case Status::kFailed:
      break;
  }
  return "failed";
}

// The events that tell the text of an item begin so.
const char* ResponsesAnswer::events_of(Kind kind) {
  switch (kind) {
    case Kind::kReasoning:
      return "response.reasoning_text";
    case Kind::kMessage:
      return "response.output_text";
    case Kind::kCall:
      break;
  }
  return "response.function_call_arguments";
}

// The one part of an item that is no call.
std::string ResponsesAnswer::part_json(const Item& item) {
  const std::string text = json_quote(item.text);
  if (item.kind == Kind::kReasoning) return R"({"type":"reasoning_text","text":)" + text + "}";
  return R"({"type":"output_text","text":)" + text + R"(,"annotations":[],"logprobs":[)" +
         item.logprobs + "]}";
}

// Parts are told when there is something of them.
std::string ResponsesAnswer::item_json(const Item& item) {
  const std::string head = "{\"id\":\"" + item.id + R"(","status":")" + word_of_status(item.status);
  if (item.kind == Kind::kCall) {
    return head + R"(","type":"function_call","call_id":")" + item.call_id + R"(","name":)" +
           json_quote(item.name) + ",\"arguments\":" + json_quote(item.text) + "}";
  }
  const std::string content = ",\"content\":[" + (item.text.empty() ? "" : part_json(item)) + "]}";
  if (item.kind == Kind::kReasoning) return head + R"(","type":"reasoning","summary":[])" + content;
  return head + R"(","type":"message","role":"assistant")" + content;
}

// Of the last item.
std::string ResponsesAnswer::index_member() const {
  return "\"output_index\":" + std::to_string(items_.size() - 1);
}

std::string ResponsesAnswer::place_members() const {
  const Item& item = items_.back();
  return "\"item_id\":\"" + item.id + "\"," + index_member() +
         (item.kind == Kind::kCall ? "" : ",\"content_index\":0");
}

std::string ResponsesAnswer::output_json() const {
  std::string out = "[";
  for (const Item& item : items_) {
    if (out.size() > 1) out += ",";
    out += item_json(item);
  }
  return out + "]";
}

// Nothing is billed for writing the cache.
std::string ResponsesAnswer::usage_json() const {
  const Usage sum = usage();
  return "{\"input_tokens\":" + std::to_string(sum.prompt_tokens) +
         ",\"input_tokens_details\":{\"cached_tokens\":" + std::to_string(sum.cached_tokens) +
         ",\"cache_write_tokens\":0},\"output_tokens\":" + std::to_string(sum.completion_tokens) +
         ",\"output_tokens_details\":{\"reasoning_tokens\":" +
         std::to_string(sum.reasoning_tokens) + "},\"total_tokens\":" +
         std::to_string(int64_t{sum.prompt_tokens} + sum.completion_tokens) + "}";
}

// `error` is JSON.
std::string ResponsesAnswer::response_json(Status status, const std::string& error,
                                           const char* why_cut) const {
  const bool is_ended = status == Status::kCompleted || status == Status::kIncomplete;
  return "{\"id\":" + json_quote(id_) + R"(,"object":"response","created_at":)" +
         std::to_string(created_) + ",\"status\":\"" + word_of_status(status) +
         R"(","background":false,"store":false,"previous_response_id":null,"truncation":"disabled","error":)" +
         error + ",\"incomplete_details\":" +
         (status == Status::kIncomplete ? "{\"reason\":\"" + std::string(why_cut) + "\"}"
                                        : "null") +
         ",\"model\":" + json_quote(form_.model) + "," + form_.repeated +
         ",\"output\":" + output_json() + ",\"usage\":" + (is_ended ? usage_json() : "null") + "}";
}

std::string ResponsesAnswer::ended_response_json(const Finish& finish) const {
  const bool is_repeated = finish.reason == FinishReason::kRepetition;
  std::string out = response_json(is_cut(finish) ? Status::kIncomplete : Status::kCompleted, "null",
                                  is_repeated ? "repetition" : "max_output_tokens");
  out.pop_back();
  return out + ",\"seed\":" + seed_json(finish.seed) + receipt_member(finish) + "}";
}

}  // namespace stoker
