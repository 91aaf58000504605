#include "api/text_stream.h"

#include <utility>

namespace stoker {

TextStream::TextStream(std::shared_ptr<const LoadedModel> model,
                       const std::vector<std::shared_ptr<engine::TokenStream>>& tokens, Start start)
    : model_(std::move(model)), start_(std::move(start)), num_running_(tokens.size()) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    choices_.push_back(std::make_unique<ChoiceText>(
        *model_, start_.choices, static_cast<int32_t>(i), start_.seeds[i], tokens[i]));
  }
}

// By turns, so that a fast choice does not keep the others' events waiting.
std::optional<Event> TextStream::poll() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    auto event = choices_[next_]->poll();
    next_ = (next_ + 1) % choices_.size();
    if (!event) continue;
    num_running_ -= event->finish ? 1 : 0;
    return event;
  }
  return std::nullopt;
}

std::optional<Event> TextStream::wait(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  while (true) {
    if (auto event = poll()) return event;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (num_running_ == 0 || left.count() <= 0) return std::nullopt;
    start_.news->wait(left);  // of what poll() has seen already, perhaps
  }
}

void TextStream::cancel() {
  for (const auto& choice : choices_) choice->cancel();
}

}  // namespace stoker
