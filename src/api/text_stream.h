// The door's Stream over the token streams of a request's choices, on the reader's thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/choice_text.h"
#include "api/loaded_model.h"
#include "api/news.h"
#include "engine/token_stream.h"
#include "stoker/engine.h"

namespace stoker {

class TextStream final : public Stream {
 public:
  struct Start {
    std::vector<int32_t> prompt_ids;
    std::vector<uint64_t> seeds;  ///< of each choice; at least one
    std::shared_ptr<News> news;   ///< that the token streams set
    ChoiceStart choices;
  };

  /// One token stream for each seed.
  TextStream(std::shared_ptr<const LoadedModel> model,
             const std::vector<std::shared_ptr<engine::TokenStream>>& tokens, Start start);

  std::optional<Event> poll() override;
  std::optional<Event> wait(std::chrono::milliseconds limit) override;
  void cancel() override;
  const std::vector<int32_t>& prompt_ids() const override { return start_.prompt_ids; }
  uint64_t seed() const override { return start_.seeds.front(); }
  int32_t num_choices() const override { return static_cast<int32_t>(start_.seeds.size()); }

 private:
  const std::shared_ptr<const LoadedModel> model_;
  const Start start_;
  std::vector<std::unique_ptr<ChoiceText>> choices_;
  size_t num_running_;  // choices that have not told their end
  size_t next_ = 0;     // whose turn it is to be looked at
};

}  // namespace stoker
