// A request while the engine has it: its tokens, its state if it runs, and where new tokens go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/repetition.h"
#include "engine/token_stream.h"
#include "kv/prefix_cache.h"
#include "kv/sequence_state.h"
#include "sampling/sampler.h"
#include "speculative/policy.h"

namespace stoker::engine {

/// Owned by the inbox, then by the scheduler; the engine's thread alone touches it once it is
/// submitted.
struct Sequence {
  Sequence() = default;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() {  // whatever happens to its owner, its reader does not wait for ever
    if (stream != nullptr && !finished)
      finish(End::kError, Error{ErrorCode::kInternal, "the request was lost", ""});
  }

  TokenRequest request;  ///< its prompt has moved to `tokens`, its sampling to `sampler`
  std::shared_ptr<TokenStream> stream;
  std::vector<int32_t> tokens;  ///< the prompt, then what was chosen
  int64_t num_prompt = 0;
  std::optional<sampling::Sampler> sampler;   ///< has accepted what was chosen
  std::optional<Constraint> constraint;       ///< the same
  std::optional<RepetitionWatch> repetition;  ///< the same
  SequenceKey key;
  bool finished = false;
  bool has_started = false;   ///< once at least
  bool is_scheduled = false;  ///< has had rows
  Work work;
  Clock::time_point submitted = Clock::now();
  Clock::time_point scheduled;                    ///< once it has had rows
  Clock::time_point first_token, last_token;      ///< once it has one
  std::vector<PositionLogprobs> prompt_logprobs;  ///< as far as they are known

  // While it runs.
  std::optional<SequenceState> state;
  PrefixPath path;
  bool is_attached = false;  ///< the prefix cache was asked: it has or will have rows
  int64_t num_promised = 0;  ///< blocks that it needs beside those in the cache, until then
  int64_t num_cached = 0;    ///< positions that it began with
  std::vector<int64_t> image_wishes;  ///< positions at which others will want to start
  int64_t rolling_image = 0;          ///< position of the image that the next one replaces; 0: none
  SequenceKey leader{0, -1};          ///< whose prefix it waits for
  int64_t leader_length = 0;          ///< until that has so many rows
  speculative::Proposal proposal;     ///< drafts of the step that is planned

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t num_chosen() const { return num_tokens() - num_prompt; }
  std::span<const int32_t> answer() const {
    return std::span(tokens).subspan(static_cast<size_t>(num_prompt));
  }
  /// The most tokens that it can come to.
  int64_t max_tokens() const { return num_prompt + request.max_tokens; }
  /// The most blocks that it may begin with: one token at least is left to be run.
  int64_t max_shared_blocks() const { return (num_tokens() - 1) / kBlockTokens; }
  /// Tokens whose state is missing; the next token needs all of them. >= 1 while it runs.
  int64_t num_behind() const { return num_tokens() - state->length(); }

  /// Ends the request; nothing more may come.
  void finish(End end, std::optional<Error> error = std::nullopt) {
    finished = true;
    stream->finish(end, std::move(error), work);
  }
};

}  // namespace stoker::engine
