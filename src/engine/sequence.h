// A request while the engine has it: its tokens, its state if it runs, and where new tokens go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/token_stream.h"
#include "kv/sequence_state.h"

namespace stoker::engine {

/// Owned by the queue, then by the scheduler; the engine's thread alone touches it once it is
/// submitted.
struct Sequence {
  Sequence() = default;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() {  // whatever happens to its owner, its reader does not wait for ever
    if (stream != nullptr && !finished)
      finish(End::kError, Error{ErrorCode::kInternal, "the request was lost", ""});
  }

  TokenRequest request;
  std::shared_ptr<TokenStream> stream;
  std::vector<int32_t> tokens;  ///< the prompt, then what was chosen; capacity for all there can be
  std::optional<SequenceState> state;  ///< while it runs
  bool finished = false;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t num_chosen() const { return num_tokens() - static_cast<int64_t>(request.prompt.size()); }
  /// The most tokens that it can come to.
  int64_t max_tokens() const {
    return static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  }
  /// Tokens whose state is missing; the next token needs all of them. >= 1 while it runs.
  int64_t num_behind() const { return num_tokens() - state->length(); }

  /// Ends the request; nothing more may come.
  void finish(End end, std::optional<Error> error = std::nullopt) {
    finished = true;
    stream->finish(end, std::move(error));
  }
};

}  // namespace stoker::engine
