// The door's Stream over a stream of tokens: channels, detokenising and stop strings, on the
// reader's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "api/stop_matcher.h"
#include "chat/reply.h"
#include "engine/token_stream.h"
#include "stoker/engine.h"
#include "stoker/log.h"

namespace stoker {

class TextStream final : public Stream {
 public:
  struct Start {
    std::vector<int32_t> prompt_ids;
    uint64_t seed = 0;
    std::vector<std::string> stop;
    bool is_chat = false;   ///< the reply is split into reasoning and content
    bool thinking = false;  ///< it begins with reasoning
    LogSink log;            ///< for the line of the finished request; may be null
  };

  TextStream(std::shared_ptr<const LoadedModel> model, std::shared_ptr<engine::TokenStream> tokens,
             Start start);
  ~TextStream() override;

  std::optional<Event> poll() override;
  std::optional<Event> wait(std::chrono::milliseconds limit) override;
  void cancel() override { tokens_->cancel(); }
  const std::vector<int32_t>& prompt_ids() const override { return start_.prompt_ids; }
  uint64_t seed() const override { return start_.seed; }

 private:
  void take(int32_t token, Event& event);
  void add_text(const std::string& piece, bool is_reasoning, Event& event);
  void flush(Event& event);
  Finish finish_of(const engine::TokenProgress& progress, engine::End end) const;
  void log(const Finish& finish) const;

  std::shared_ptr<const LoadedModel> model_;
  std::shared_ptr<engine::TokenStream> tokens_;
  Start start_;
  std::optional<chat::ReplySplitter> splitter_;
  std::optional<Detokenizer> reasoning_;
  std::optional<Detokenizer> content_;
  StopMatcher stops_;
  int32_t num_tokens_ = 0;
  bool finished_ = false;
};

}  // namespace stoker
