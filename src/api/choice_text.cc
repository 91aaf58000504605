#include "api/choice_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace stoker {
namespace {

int64_t num_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

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
      stops_(start.stop, start.include_stop) {
  if (model_.tokenizer() == nullptr) return;
  if (start_.is_chat) splitter_.emplace(*model_.encoder(), start_.thinking);
  reasoning_.emplace(*model_.tokenizer(), /*skip_special=*/!start_.is_chat);
  content_.emplace(*model_.tokenizer(), /*skip_special=*/!start_.is_chat);
}

ChoiceText::~ChoiceText() {
  tokens_->detach();
  if (finished_) return;
  tokens_->cancel();
  log(finish_of(tokens_->take(), engine::End::kCancelled));
}

std::optional<Event> ChoiceText::poll() {
  if (finished_) return std::nullopt;
  engine::TokenProgress progress = tokens_->take();
  if (progress.tokens.empty() && !progress.end) return std::nullopt;
  Event event;
  event.choice = choice_;
  event.prompt_logprobs = std::move(progress.prompt_logprobs);
  for (size_t i = 0; i < progress.tokens.size(); ++i) {
    TokenDetail detail = take(progress.tokens[i], event);
    if (!progress.logprobs.empty()) {
      detail.logprobs = std::move(progress.logprobs[i]);
      event.details.push_back(std::move(detail));
    }
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
  if (finished_ && start_.receipt) event.finish->receipt = receipt(*event.finish);
  count_shown(event, finished_);
  if (finished_) log(*event.finish);
  return event;
}

// Adds a token and what text it makes known.
TokenDetail ChoiceText::take(int32_t token, Event& event) {
  event.ids.push_back(token);
  if (start_.receipt) ids_.push_back(token);
  ++num_tokens_;
  last_token_ = token;
  Pending pending{TokenPart::kContent, num_made_, num_made_};
  TokenDetail detail;
  detail.text_offset = num_content_chars_;
  if (content_) {
    chat::ReplySplitter::Step step;
    if (splitter_) step = splitter_->push(token);
    if (step.hidden || is_hidden_end(token) ||
        (!start_.is_chat && token < model_.tokenizer()->size() &&
         model_.tokenizer()->is_special(token))) {
      pending.part = TokenPart::kHidden;
    } else if (step.channel == chat::Channel::kReasoning) {
      pending.part = TokenPart::kReasoning;
      detail.text_offset = num_reasoning_chars_;
      const std::string piece = reasoning_->push(token);
      num_reasoning_chars_ += num_code_points(piece);
      event.reasoning += piece;
    } else {
      add_content(token, event, pending);
    }
  }
  detail.part = pending.part;
  pending_.push_back(pending);
  return detail;
}

// Stop strings are looked for in the content alone.
void ChoiceText::add_content(int32_t token, Event& event, Pending& pending) {
  const std::string piece = content_->push(token);
  num_made_ += piece.size();
  num_content_chars_ += num_code_points(piece);
  pending.end = std::max(num_made_, pending.begin + 1);
  const std::string shown = stops_.push(piece, num_tokens_ > start_.min_tokens);
  num_out_ += shown.size();
  event.text += shown;
}

// No more tokens come: what was held back.
void ChoiceText::flush(Event& event) {
  if (!content_) return;
  event.reasoning += reasoning_->finish();
  const size_t size = event.text.size();
  event.text += stops_.push(content_->finish(), num_tokens_ > start_.min_tokens);
  event.text += stops_.finish();
  num_out_ += event.text.size() - size;
}

// Tokens whose text is out. At the end all are, but those that begin behind a stop string.
void ChoiceText::count_shown(Event& event, bool is_end) {
  const auto is_shown = [&](const Pending& token) {
    if (token.part != TokenPart::kContent || !content_) return true;
    if (!is_end) return token.end <= num_out_;
    return !stops_.matched() || token.begin < num_out_;
  };
  while (!pending_.empty() && is_shown(pending_.front())) {
    pending_.pop_front();
    ++num_shown_;
  }
  event.num_shown = num_shown_;
}

// A token that ends an answer and has no text in it. The end of text never has.
bool ChoiceText::is_hidden_end(int32_t token) const {
  return contains(model_.stop_ids(), token) ||
         (!start_.include_stop && contains(start_.stop_token_ids, token));
}

Finish ChoiceText::finish_of(const engine::TokenProgress& progress, engine::End end) const {
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
  if (end == engine::End::kStopId && !finish.stop && contains(start_.stop_token_ids, last_token_))
    finish.stop_token = last_token_;
  finish.error = progress.error;
  finish.seed = seed_;
  const engine::Cost& cost = progress.cost;
  finish.usage = {start_.num_prompt, static_cast<int32_t>(cost.cached_tokens),
                  cost.work.computed_tokens, num_tokens_,
                  splitter_ ? splitter_->num_reasoning_tokens() : 0};
  finish.timings = {cost.scheduled - cost.submitted, cost.first_token - cost.submitted,
                    cost.last_token - cost.submitted};
  finish.verified_drafts = cost.work.verified_drafts;
  finish.accepted_drafts = cost.work.accepted_drafts;
  finish.num_preemptions = cost.work.num_preemptions;
  return finish;
}

// Of an answer that ended by itself; a part of one proves nothing of the rest.
std::string ChoiceText::receipt(const Finish& finish) const {
  if (finish.reason != FinishReason::kStop && finish.reason != FinishReason::kLength) return {};
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
