#include "server/anthropic_answer.h"

#include <utility>

#include "base/json.h"
#include "server/answer_json.h"
#include "server/identity.h"

namespace stoker {
namespace {

// What stands behind a block of thinking. Clients keep it and send it back; nothing reads it here.
// Some drop blocks in which it is empty.
constexpr const char* kSignature = "c3Rva2Vy";

std::string thinking_json(const std::string& text, const char* signature) {
  return R"({"type":"thinking","thinking":)" + json_quote(text) + R"(,"signature":")" + signature +
         "\"}";
}

std::string text_json(const std::string& text) {
  return R"({"type":"text","text":)" + json_quote(text) + "}";
}

// `input` is JSON of an object.
std::string call_json(const std::string& id, const std::string& name, const std::string& input) {
  return R"({"type":"tool_use","id":")" + id + R"(","name":)" + json_quote(name) + R"(,"input":)" +
         input + "}";
}

const char* stop_reason(const Finish& finish) {
  if (finish.reason == FinishReason::kCalls) return "tool_use";
  if (finish.reason == FinishReason::kLength) return "max_tokens";
  return finish.stop ? "stop_sequence" : "end_turn";
}

std::string stop_members(const Finish& finish) {
  return R"("stop_reason":")" + std::string(stop_reason(finish)) + R"(","stop_sequence":)" +
         (finish.stop ? json_quote(*finish.stop) : "null");
}

}  // namespace

AnthropicAnswer::AnthropicAnswer(const AnswerForm& form, const std::string& request_id,
                                 std::vector<std::unique_ptr<Stream>> streams)
    : Answer(std::move(streams), form.stream, true),
      id_(kMessagePrefix + request_id),
      model_(form.model),
      shows_reasoning_(form.include_reasoning) {}

std::string AnthropicAnswer::opening() {
  return named_event(
      "message_start",
      "\"message\":" + message_json("", R"("stop_reason":null,"stop_sequence":null)"));
}

void AnthropicAnswer::tell(Choice& choice, Event& event, std::string& out) {
  if (!is_streamed()) return;
  if (!event.reasoning.empty()) append_reasoning(event.reasoning, out);
  if (!event.text.empty()) append_text(event.text, out);
  for (const CallPiece& piece : event.calls) append_call(piece, out);
  if (choice.finish) append_end(*choice.finish, out);
}

void AnthropicAnswer::tell_failure(const HttpError& error, std::string& out) const {
  out += "event: error\ndata: " + error_json(error, ErrorForm::kAnthropic) + "\n\n";
}

void AnthropicAnswer::append_reasoning(const std::string& text, std::string& out) {
  if (open_ != Block::kThinking) open(Block::kThinking, thinking_json("", ""), out);
  if (shows_reasoning_) append_delta("thinking_delta", "thinking", text, out);
}

void AnthropicAnswer::append_text(const std::string& text, std::string& out) {
  if (open_ != Block::kText) open(Block::kText, text_json(""), out);
  append_delta("text_delta", "text", text, out);
}

void AnthropicAnswer::append_call(const CallPiece& piece, std::string& out) {
  if (piece.name) open(Block::kCall, call_json(ids_.next_call("toolu_"), *piece.name, "{}"), out);
  if (!piece.arguments.empty())
    append_delta("input_json_delta", "partial_json", piece.arguments, out);
}

void AnthropicAnswer::append_end(const Finish& finish, std::string& out) {
  close(out);
  out += named_event("message_delta",
                     "\"delta\":{" + stop_members(finish) + "},\"usage\":" + usage_json());
  out += named_event("message_stop", "");
}

// Begins a block, `json` without its content, behind the one before.
void AnthropicAnswer::open(Block block, const std::string& json, std::string& out) {
  close(out);
  open_ = block;
  out += named_event("content_block_start",
                     "\"index\":" + std::to_string(num_blocks_) + ",\"content_block\":" + json);
  ++num_blocks_;
}

void AnthropicAnswer::close(std::string& out) {
  const Block block = std::exchange(open_, Block::kNone);
  if (block == Block::kNone) return;
  if (block == Block::kThinking) append_delta("signature_delta", "signature", kSignature, out);
  out += named_event("content_block_stop", "\"index\":" + std::to_string(num_blocks_ - 1));
}

// To the block that is open.
void AnthropicAnswer::append_delta(const char* type, const char* member, const std::string& value,
                                   std::string& out) const {
  out += named_event("content_block_delta", "\"index\":" + std::to_string(num_blocks_ - 1) +
                                                R"(,"delta":{"type":")" + type + "\",\"" + member +
                                                "\":" + json_quote(value) + "}");
}

// A call that was cut off is left out: what is there of it is no input.
std::string AnthropicAnswer::body() {
  const Choice& choice = choices().front();
  std::vector<std::string> blocks;
  if (!choice.reasoning.empty())
    blocks.push_back(thinking_json(shows_reasoning_ ? choice.reasoning : "", kSignature));
  if (!choice.text.empty()) blocks.push_back(text_json(choice.text));
  const size_t num_whole = choice.calls.calls.size() - (choice.calls.is_cut ? 1 : 0);
  for (size_t i = 0; i < num_whole; ++i) {
    const ToolCall& call = choice.calls.calls[i];
    blocks.push_back(call_json(ids_.next_call("toolu_"), call.name, call.arguments));
  }
  std::string content;
  for (const std::string& block : blocks) content += (content.empty() ? "" : ",") + block;
  return message_json(content, stop_members(*choice.finish));
}

std::string AnthropicAnswer::message_json(const std::string& content,
                                          const std::string& end) const {
  return "{\"id\":" + json_quote(id_) + R"(,"type":"message","role":"assistant","model":)" +
         json_quote(model_) + ",\"content\":[" + content + "]," + end +
         ",\"usage\":" + usage_json() + "}";
}

// As it is so far. Tokens of the prompt count in one of two places, and nothing is billed for
// writing the cache.
std::string AnthropicAnswer::usage_json() const {
  const Usage sum = usage();
  return "{\"input_tokens\":" + std::to_string(sum.prompt_tokens - sum.cached_tokens) +
         ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":" +
         std::to_string(sum.cached_tokens) +
         ",\"output_tokens\":" + std::to_string(sum.completion_tokens) +
         ",\"output_tokens_details\":{\"thinking_tokens\":" + std::to_string(sum.reasoning_tokens) +
         "}}";
}

}  // namespace stoker
