#include "api/choice_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace stoker {
namespace {

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

ChoiceText::ChoiceText(const LoadedModel& model, const ChoiceStart& start, int32_t choice,
                       uint64_t seed, std::shared_ptr<engine::TokenStream> tokens)
    : model_(model),
      start_(start),
      choice_(choice),
      seed_(seed),
      tokens_(std::move(tokens)),
      text_(model.tokenizer(), start.reply, start.stops) {}

ChoiceText::~ChoiceText() {
  tokens_->detach();
  if (finished_) return;
  tokens_->cancel();
  log(finish_of(tokens_->take(), engine::End::kCancelled));
}

std::optional<Event> ChoiceText::poll() {
  if (finished_) return std::nullopt;
  engine::TokenProgress progress = tokens_->take();
  if (progress.tokens.empty() && !progress.num_read && !progress.end) return std::nullopt;
  Event event;
  event.choice = choice_;
  event.prompt_progress = prompt_progress(progress);
  event.prompt_logprobs = std::move(progress.prompt_logprobs);
  for (size_t i = 0; i < progress.tokens.size() && !text_.is_over(); ++i) {
    std::optional<PositionLogprobs> logprobs;
    if (!progress.logprobs.empty()) logprobs = std::move(progress.logprobs[i]);
    take(progress.tokens[i], std::move(logprobs), event);
  }  // what the engine chose after the end is not part of the answer
  if (progress.end || text_.is_over()) {
    const bool is_whole = progress.end == engine::End::kStopId;
    text_.finish(is_whole ? chat::ReplyEnd::kEndOfText : chat::ReplyEnd::kLength, may_stop(),
                 event);
  }
  if (text_.is_over()) {
    tokens_->cancel();
    event.finish = finish_of(progress, engine::End::kStopId);
  } else if (progress.end) {
    event.finish = finish_of(progress, *progress.end);
  }
  finished_ = event.finish.has_value();
  if (finished_ && start_.receipt) event.finish->receipt = receipt(*event.finish);
  text_.count_shown(finished_, event);
  if (finished_) log(*event.finish);
  return event;
}

std::optional<PromptProgress> ChoiceText::prompt_progress(
    const engine::TokenProgress& progress) const {
  if (!progress.num_read) return std::nullopt;
  return PromptProgress{start_.num_prompt, static_cast<int32_t>(progress.cost.cached_tokens),
                        static_cast<int32_t>(*progress.num_read),
                        progress.read_at - progress.cost.scheduled};
}

void ChoiceText::take(int32_t token, std::optional<PositionLogprobs> logprobs, Event& event) {
  if (start_.receipt) ids_.push_back(token);
  ++num_tokens_;
  last_token_ = token;
  text_.push(token, is_hidden(token), may_stop(), std::move(logprobs), event);
}

// Whether it has no place in any text.
bool ChoiceText::is_hidden(int32_t token) const {
  const Tokenizer* tokenizer = model_.tokenizer();
  if (tokenizer == nullptr) return false;
  if (is_hidden_end(token)) return true;
  if (start_.reply.start != ReplyStart::kText) return model_.encoder()->is_hidden(token);
  return token < tokenizer->size() && tokenizer->is_special(token);
}

// A token that ends an answer and has no text in it. The end of text never has.
bool ChoiceText::is_hidden_end(int32_t token) const {
  return contains(model_.stop_ids(), token) ||
         (!start_.stops.are_shown && contains(start_.stop_token_ids, token));
}

Finish ChoiceText::finish_of(const engine::TokenProgress& progress, engine::End end) const {
  Finish finish;
  switch (end) {
    case engine::End::kStopId:
      finish.reason = FinishReason::kStop;
      break;
    case engine::End::kRepetition:
      finish.reason = FinishReason::kRepetition;
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
  finish.stop = text_.matched();
  if (end == engine::End::kStopId && !text_.is_over() &&
      contains(start_.stop_token_ids, last_token_))
    finish.stop_token = last_token_;
  if (finish.reason == FinishReason::kStop && !finish.stop && !finish.stop_token &&
      text_.num_calls() > 0)
    finish.reason = FinishReason::kCalls;
  finish.unfinished_call = text_.unfinished_call();
  finish.error = progress.error;
  finish.seed = seed_;
  const engine::Cost& cost = progress.cost;
  finish.usage = {start_.num_prompt, static_cast<int32_t>(cost.cached_tokens),
                  cost.work.computed_tokens, num_tokens_, text_.num_reasoning_tokens()};
  finish.timings = {cost.scheduled - cost.submitted, cost.first_token - cost.submitted,
                    cost.last_token - cost.submitted};
  finish.verified_drafts = cost.work.verified_drafts;
  finish.accepted_drafts = cost.work.accepted_drafts;
  finish.num_preemptions = cost.work.num_preemptions;
  return finish;
}

// Of an answer that ended by itself; a part of one proves nothing of the rest.
std::string ChoiceText::receipt(const Finish& finish) const {
  if (finish.reason == FinishReason::kCancelled || finish.reason == FinishReason::kError) return {};
  Receipt receipt = *start_.receipt;
  receipt.request.sampling.seed = seed_;
  receipt.ids = ids_;
  receipt.reason = finish.reason;
  receipt.stop = finish.stop;
  receipt.stop_token = finish.stop_token;
  return receipt_json(receipt);
}

// One line, without a word of the request or of its answer.
void ChoiceText::log(const Finish& finish) const {
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
                 " choice=" + std::to_string(choice_) +
                 " prompt_tokens=" + std::to_string(finish.usage.prompt_tokens) +
                 " cached_tokens=" + std::to_string(finish.usage.cached_tokens) +
                 " computed_tokens=" + std::to_string(finish.usage.computed_tokens) +
                 " completion_tokens=" + std::to_string(finish.usage.completion_tokens) +
                 " verified_drafts=" + std::to_string(finish.verified_drafts) +
                 " accepted_drafts=" + std::to_string(finish.accepted_drafts) + " preemptions=" +
                 std::to_string(finish.num_preemptions) + " queue_s=" + seconds(t.queued) +
                 " prefill_s=" + seconds(t.first_token - t.queued) +
                 " first_token_s=" + seconds(t.first_token) +
                 " token_s=" + seconds(later > 0 ? (t.total - t.first_token) / later : Seconds{}) +
                 " total_s=" + seconds(t.total));
}

}  // namespace stoker
