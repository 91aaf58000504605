// One choice of an answer: its tokens as they come, to text in channels, cut at stop strings.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "api/stop_matcher.h"
#include "chat/reply.h"
#include "engine/token_stream.h"
#include "stoker/events.h"
#include "stoker/log.h"
#include "stoker/receipt.h"

namespace stoker {

/// What all choices of a request have.
struct ChoiceStart {
  int32_t num_prompt = 0;
  std::vector<std::string> stop;
  bool include_stop = false;            ///< in the text
  std::vector<int32_t> stop_token_ids;  ///< beside those that end every text
  int32_t min_tokens = 0;               ///< until then no stop string ends
  bool is_chat = false;                 ///< the reply is split into reasoning and content
  bool thinking = false;                ///< it begins with reasoning
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
  // A token whose text is not out.
  struct Pending {
    TokenPart part;
    size_t begin;  // in the content: bytes before it,
    size_t end;    // and where its text is whole
  };

  TokenDetail take(int32_t token, Event& event);
  void add_content(int32_t token, Event& event, Pending& pending);
  void flush(Event& event);
  void count_shown(Event& event, bool is_end);
  bool is_hidden_end(int32_t token) const;
  std::string receipt(const Finish& finish) const;
  Finish finish_of(const engine::TokenProgress& progress, engine::End end) const;
  void log(const Finish& finish) const;

  const LoadedModel& model_;
  const ChoiceStart& start_;
  const int32_t choice_;
  const uint64_t seed_;
  std::shared_ptr<engine::TokenStream> tokens_;
  std::optional<chat::ReplySplitter> splitter_;
  std::optional<Detokenizer> reasoning_;
  std::optional<Detokenizer> content_;
  StopMatcher stops_;
  std::deque<Pending> pending_;
  size_t num_made_ = 0;            // bytes of content so far, those held back included
  size_t num_out_ = 0;             // of them, in events
  int64_t num_content_chars_ = 0;  // code points of them
  int64_t num_reasoning_chars_ = 0;
  std::vector<int32_t> ids_;  // all so far, with a receipt
  int32_t num_tokens_ = 0;
  int32_t num_shown_ = 0;
  int32_t last_token_ = -1;
  bool finished_ = false;
};

}  // namespace stoker
