#include "server/answer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/retry_after.h"

namespace stoker {
namespace {

// Of a prompt that is of interest alone: what the engine chose behind it is not told.
void hide_answer(Event& event) {
  event.ids.clear();
  event.details.clear();
  event.num_shown = 0;
  event.text.clear();
  event.reasoning.clear();
  event.calls.clear();
  if (!event.finish) return;
  Finish& finish = *event.finish;
  finish.reason = FinishReason::kLength;
  finish.stop.reset();
  finish.stop_token.reset();
  finish.usage.completion_tokens = 0;
  finish.usage.reasoning_tokens = 0;
  finish.unfinished_call.clear();
  finish.receipt.clear();
}

Timings longest(const Timings& a, const Timings& b) {
  return {std::max(a.queued, b.queued), std::max(a.first_token, b.first_token),
          std::max(a.total, b.total)};
}

}  // namespace

Answer::Answer(std::vector<std::unique_ptr<Stream>> streams, bool is_streamed, bool has_answer)
    : streams_(std::move(streams)), is_streamed_(is_streamed), has_answer_(has_answer) {
  CHECK(!streams_.empty(), "an answer has a choice");
  for (size_t i = 0; i < streams_.size(); ++i) {
    const int32_t num_choices = streams_[i]->num_choices();
    for (int32_t j = 0; j < num_choices; ++j) choices_.push_back({choices_.size(), i});
    num_running_of_.push_back(num_choices);
  }
  num_running_ = choices_.size();
}

void Answer::poll(std::string& out, size_t max_bytes) {
  size_t first = 0;  // choice of the stream
  for (size_t i = 0; i < streams_.size(); ++i) {
    while (num_running_of_[i] > 0 && !error_ && (!is_streamed_ || out.size() < max_bytes)) {
      auto event = streams_[i]->poll();
      if (!event) break;
      if (event->finish) --num_running_of_[i];
      read(choices_[first + static_cast<size_t>(event->choice)], *event, out);
    }
    first += static_cast<size_t>(streams_[i]->num_choices());
  }
}

void Answer::abort() {
  is_aborted_ = true;
  for (const auto& stream : streams_) stream->cancel();
}

void Answer::read(Choice& choice, Event& event, std::string& out) {
  if (event.finish) {
    timings_ = longest(timings_, event.finish->timings);
    reason_ = event.finish->reason;
  }
  if (!has_answer_) hide_answer(event);
  choice.num_tokens += static_cast<int32_t>(event.ids.size());
  if (event.finish) {
    choice.finish = event.finish;
    if (reason_ == FinishReason::kCancelled || reason_ == FinishReason::kError)
      return fail(event.finish->error, out);
    --num_running_;
  }
  if (!is_streamed_) collect(choice, event);
  tell(choice, event, out);
}

void Answer::collect(Choice& choice, const Event& event) const {
  choice.reasoning += event.reasoning;
  choice.text += event.text;
  choice.calls.add(event.calls);
  if (choice.finish) choice.text += choice.calls.finish(*choice.finish);
}

// One choice that fails ends the others.
void Answer::fail(const std::optional<Error>& error, std::string& out) {
  if (error) {
    error_ = to_http_error(*error);
  } else {
    error_ = {503,
              is_aborted_ ? "the request was aborted"
                          : "the server stopped before the answer was finished",
              "", "", kLongRetrySeconds};
  }
  num_running_ = 0;
  for (const auto& stream : streams_) stream->cancel();
  if (is_streamed_) tell_failure(*error_, out);
}

// Prompts count once, whatever the number of their choices.
Usage Answer::usage() const {
  Usage sum;
  for (const auto& stream : streams_)
    sum.prompt_tokens += static_cast<int32_t>(stream->prompt_ids().size());
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

}  // namespace stoker
