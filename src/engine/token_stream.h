// A request in tokens, and the tokens on their way back.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint.h"
#include "engine/inbox.h"
#include "engine/repetition.h"
#include "sampling/params.h"
#include "stoker/logprobs.h"
#include "stoker/result.h"

namespace stoker::engine {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// A request in tokens. Every id is in the vocabulary; prompt.size() + max_tokens fits the context.
struct TokenRequest {
  std::vector<int32_t> prompt;  ///< at least one
  sampling::Params sampling;
  uint64_t seed = 0;
  int32_t max_tokens = 1;                     ///< >= 1
  std::vector<int32_t> stop_ids;              ///< choosing one of these ends the sequence
  int32_t priority = 0;                       ///< lower is served first
  std::optional<Clock::time_point> deadline;  ///< it ends with kDeadlineExceeded then
  std::string cache_salt;                     ///< prefixes are shared under the same salt only
  /// Of every chosen token, and how many of the likeliest ones with it.
  std::optional<int32_t> logprobs;
  /// Of every prompt token but the first, the same; reads no cached prefix.
  std::optional<int32_t> prompt_logprobs;
  std::optional<ConstraintPlan> constraint;   ///< what the answer may be; none: anything
  std::optional<RepetitionLimit> repetition;  ///< ends the sequence; not before min_tokens
  bool tell_progress = false;                 ///< while its prompt is read
  bool speculate = true;                      ///< drafts may be made for it; they change no token
};

/// How a sequence ended.
enum class End { kStopId, kRepetition, kLength, kCancelled, kError };

/// What was done for a sequence.
struct Work {
  int64_t computed_tokens = 0;  ///< rows that were run, again after a preemption too
  int32_t num_preemptions = 0;
  int64_t verified_drafts = 0;  ///< of the rows, those that were drafts,
  int64_t accepted_drafts = 0;  ///< and of these, those that became tokens
};

/// What a request cost, so far.
struct Cost {
  Clock::time_point submitted;
  Clock::time_point scheduled;    ///< first step that held a row; submitted until then
  Clock::time_point first_token;  ///< scheduled until then
  Clock::time_point last_token;
  int64_t cached_tokens = 0;  ///< of the prompt, taken from the prefix cache at its first start
  Work work;                  ///< up to the last token
};

/// What a reader finds in a TokenStream.
struct TokenProgress {
  std::vector<int32_t> tokens;                    ///< chosen since the last look
  std::vector<PositionLogprobs> logprobs;         ///< if asked for, one for each token
  std::vector<PositionLogprobs> prompt_logprobs;  ///< if asked for, with the first token
  std::optional<int64_t> num_read;                ///< of the prompt, if that is told and new
  Clock::time_point read_at;                      ///< when that was so
  std::optional<End> end;                         ///< nothing more will come
  std::optional<Error> error;                     ///< with End::kError
  Cost cost;
};

/// Tokens on their way from the engine's thread to one reader. Safe from both; cancel() from any
/// thread.
class TokenStream {
 public:
  /// inbox: may be null in tests; then nobody hears of a cancellation.
  TokenStream(std::shared_ptr<Inbox> inbox, std::function<void()> ready);

  /// Moves out what is there. Never blocks for long.
  TokenProgress take();
  /// Waits until take() would find something, or the limit has passed.
  void wait(std::chrono::milliseconds limit);
  /// Asks for the end, which comes before the next step. Nothing where it came already.
  void cancel();
  /// `ready` is not called once this has returned.
  void detach();

  // The engine's side.
  void attach(const SequenceKey& key);
  /// The sequence starts, or ends without: it makes room in the queue.
  void leave_queue();
  void mark_scheduled(Clock::time_point now, int64_t cached_tokens);
  void push(int32_t token, std::optional<PositionLogprobs> logprobs, Clock::time_point now,
            const Work& work);
  /// So many tokens of the prompt are read; never fewer than before.
  void tell_read(int64_t num_tokens, Clock::time_point now);
  void set_prompt_logprobs(std::vector<PositionLogprobs> logprobs);
  void finish(End end, std::optional<Error> error, const Work& work);

 private:
  bool has_news() const;

  const std::shared_ptr<Inbox> inbox_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable news_;
  TokenProgress progress_;
  int64_t most_read_ = 0;
  SequenceKey key_;
  bool end_taken_ = false;
  std::function<void()> ready_;
};

}  // namespace stoker::engine
