// One choice of an answer: its tokens as they come, to events, and how it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "api/reply_text.h"
#include "engine/token_stream.h"
#include "stoker/events.h"
#include "stoker/log.h"
#include "stoker/receipt.h"

namespace stoker {

/// What all choices of a request have.
struct ChoiceStart {
  int32_t num_prompt = 0;
  ReplyText::Stops stops;
  std::vector<int32_t> stop_token_ids;  ///< beside those that end every text
  int32_t min_tokens = 0;               ///< until then no stop string ends
  ReplyFormat reply;                    ///< as what the tokens are read
  std::optional<Receipt> receipt;       ///< if one is asked for: what all of them begin with
  LogSink log;                          ///< for the line of each that is finished; may be null
};

/// Read by one thread at a time. Destroying it cancels the choice.
class ChoiceText {
 public:
  /// Borrows the model and `start`. `seed`: of this choice.
  ChoiceText(const LoadedModel& model, const ChoiceStart& start, int32_t choice, uint64_t seed,
             std::shared_ptr<engine::TokenStream> tokens);
  ~ChoiceText();
  ChoiceText(const ChoiceText&) = delete;
  ChoiceText& operator=(const ChoiceText&) = delete;

  /// As Stream::poll, of this choice.
  std::optional<Event> poll();
  void cancel() { tokens_->cancel(); }

 private:
  std::optional<PromptProgress> prompt_progress(const engine::TokenProgress& progress) const;
  void take(int32_t token, std::optional<PositionLogprobs> logprobs, Event& event);
  bool may_stop() const { return num_tokens_ > start_.min_tokens; }
  bool is_hidden(int32_t token) const;
  bool is_hidden_end(int32_t token) const;
  std::string receipt(const Finish& finish) const;
  Finish finish_of(const engine::TokenProgress& progress, engine::End end) const;
  void log(const Finish& finish) const;

  const LoadedModel& model_;
  const ChoiceStart& start_;
  const int32_t choice_;
  const uint64_t seed_;
  std::shared_ptr<engine::TokenStream> tokens_;
  ReplyText text_;
  std::vector<int32_t> ids_;  // all so far, with a receipt
  int32_t num_tokens_ = 0;
  int32_t last_token_ = -1;
  bool finished_ = false;
};

}  // namespace stoker
