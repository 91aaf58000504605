#include "api/text_stream.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace stoker {

TextStream::TextStream(std::shared_ptr<const LoadedModel> model,
                       std::shared_ptr<engine::TokenStream> tokens, Start start)
    : model_(std::move(model)),
      tokens_(std::move(tokens)),
      start_(std::move(start)),
      stops_(start_.stop) {
  if (model_->tokenizer() == nullptr) return;
  if (start_.is_chat) splitter_.emplace(*model_->encoder(), start_.thinking);
  reasoning_.emplace(*model_->tokenizer(), /*skip_special=*/!start_.is_chat);
  content_.emplace(*model_->tokenizer(), /*skip_special=*/!start_.is_chat);
}

TextStream::~TextStream() {
  tokens_->detach();
  if (finished_) return;
  tokens_->cancel();
  log(finish_of(tokens_->take(), engine::End::kCancelled));
}

std::optional<Event> TextStream::poll() {
  if (finished_) return std::nullopt;
  engine::TokenProgress progress = tokens_->take();
  if (progress.tokens.empty() && !progress.end) return std::nullopt;
  Event event;
  event.prompt_logprobs = std::move(progress.prompt_logprobs);
  for (const int32_t token : progress.tokens) {
    take(token, event);
    if (stops_.matched()) break;  // what the engine chose meanwhile is not part of the answer
  }
  if (progress.end && !stops_.matched()) flush(event);
  if (stops_.matched()) {
    tokens_->cancel();
    event.finish = finish_of(progress, engine::End::kStopId);
  } else if (progress.end) {
    event.finish = finish_of(progress, *progress.end);
  }
  finished_ = event.finish.has_value();
  if (finished_) log(*event.finish);
  return event;
}

std::optional<Event> TextStream::wait(std::chrono::milliseconds limit) {
  if (finished_) return std::nullopt;
  tokens_->wait(limit);
  return poll();
}

void TextStream::take(int32_t token, Event& event) {
  event.ids.push_back(token);
  ++num_tokens_;
  if (!content_) return;
  chat::ReplySplitter::Step step;
  if (splitter_) step = splitter_->push(token);
  const auto& ends = model_->stop_ids();
  if (step.hidden || std::find(ends.begin(), ends.end(), token) != ends.end()) return;
  const bool is_reasoning = step.channel == chat::Channel::kReasoning;
  add_text((is_reasoning ? reasoning_ : content_)->push(token), is_reasoning, event);
}

// Stop strings are looked for in the content alone.
void TextStream::add_text(const std::string& piece, bool is_reasoning, Event& event) {
  if (is_reasoning) {
    event.reasoning += piece;
  } else {
    event.text += stops_.push(piece);
  }
}

void TextStream::flush(Event& event) {
  if (!content_) return;
  event.reasoning += reasoning_->finish();
  event.text += stops_.push(content_->finish());
  event.text += stops_.finish();
}

Finish TextStream::finish_of(const engine::TokenProgress& progress, engine::End end) const {
  Finish finish;
  switch (end) {
    case engine::End::kStopId:
      finish.reason = FinishReason::kStop;
      break;
    case engine::End::kLength:
      finish.reason = FinishReason::kLength;
      break;
    case engine::End::kCancelled:
      finish.reason = FinishReason::kCancelled;
      break;
    case engine::End::kError:
      finish.reason = FinishReason::kError;
      break;
  }
  finish.stop = stops_.matched();
  finish.error = progress.error;
  const engine::Cost& cost = progress.cost;
  finish.usage = {static_cast<int32_t>(start_.prompt_ids.size()),
                  static_cast<int32_t>(cost.cached_tokens), cost.work.computed_tokens, num_tokens_,
                  splitter_ ? splitter_->num_reasoning_tokens() : 0};
  finish.timings = {cost.scheduled - cost.submitted, cost.first_token - cost.submitted,
                    cost.last_token - cost.submitted};
  finish.num_preemptions = cost.work.num_preemptions;
  return finish;
}

// One line, without a word of the request or of its answer.
void TextStream::log(const Finish& finish) const {
  if (!start_.log) return;
  const auto seconds = [](Seconds time) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6f", time.count());
    return std::string(text.data());
  };
  const Timings& t = finish.timings;
  const int32_t later = finish.usage.completion_tokens - 1;
  start_.log(finish.reason == FinishReason::kError ? LogLevel::kWarning : LogLevel::kInfo,
             std::string("event=finished reason=") + to_string(finish.reason) +
                 " prompt_tokens=" + std::to_string(finish.usage.prompt_tokens) +
                 " cached_tokens=" + std::to_string(finish.usage.cached_tokens) +
                 " computed_tokens=" + std::to_string(finish.usage.computed_tokens) +
                 " completion_tokens=" + std::to_string(finish.usage.completion_tokens) +
                 " preemptions=" + std::to_string(finish.num_preemptions) + " queue_s=" +
                 seconds(t.queued) + " prefill_s=" + seconds(t.first_token - t.queued) +
                 " first_token_s=" + seconds(t.first_token) +
                 " token_s=" + seconds(later > 0 ? (t.total - t.first_token) / later : Seconds{}) +
                 " total_s=" + seconds(t.total));
}

}  // namespace stoker
