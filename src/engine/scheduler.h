// Who runs, and how many rows each gets in a step. One rule: the state of every running sequence
// catches up with its tokens, so that prefill, decode, a prefix from the cache and running again
// after a preemption are the same thing.
//
// Also keeps the prefix cache: a sequence looks up what is there when it gets its first rows, its
// full blocks become findable after the step that filled them, and images are made where somebody
// may want to start.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/metrics.h"
#include "engine/sequence.h"
#include "kv/kv_store.h"
#include "kv/prefix_cache.h"
#include "kv/saved_prefix.h"
#include "model/model.h"

namespace stoker::engine {

/// What a sequence gets in a step: its next `rows` tokens, for which blocks are reserved. With
/// drafts these are its last token, then the first num_drafts of its proposal.
struct Share {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
  bool is_decode = false;  ///< the last token alone, which was chosen, and drafts behind it
  int64_t num_drafts = 0;
  std::vector<Capture> captures;     ///< images to be made meanwhile
  std::vector<PendingImage> images;  ///< their units, the scheduler's
};

/// Of all shares.
inline int64_t num_rows(std::span<const Share> shares) {
  int64_t rows = 0;
  for (const Share& share : shares) rows += share.rows;
  return rows;
}

struct SchedulerOptions {
  bool prefix_cache = true;
  Replay replay;
  int64_t image_interval = 512;  ///< tokens between images in the middle of prompts and answers
};

/// Decides nothing by chance or by time. The engine's thread only.
class Scheduler {
 public:
  /// Borrows the store and the metrics.
  Scheduler(KvStore& store, const SchedulerOptions& options, Metrics& metrics);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Puts a sequence in its place among those that wait. O(log n).
  void enqueue(std::unique_ptr<Sequence> sequence);
  /// Ends a sequence that waits or runs; nothing where there is none. Its blocks are free at once.
  void end(const SequenceKey& key, End end, std::optional<Error> error);
  /// Ends those whose deadline has passed.
  void expire(Clock::time_point now);
  /// Ends those that run, or all.
  void end_running(End end, const std::optional<Error>& error);
  void end_all(End end, const std::optional<Error>& error);

  /// Starts whom there is room for, in their order, and hands out the next step's rows: one to each
  /// sequence that is one token behind, `max_prefill_rows` (>= 1) to the others together. Where
  /// blocks run out, those that come last in the order lose their state and wait again. The first
  /// is never among them. Valid until the step is over.
  std::span<Share> plan(int64_t max_prefill_rows);
  /// Adds drafts to a share of plan() that is a decode: at most so many, as many as there is room
  /// for without taking anybody's state. Returns how many.
  int64_t add_drafts(Share& share, int64_t drafts);
  /// Which images are made meanwhile; when the shares are final.
  void plan_images();

  /// The model ran the shares, and drafts that were not accepted are rolled back: full blocks and
  /// images become findable.
  void commit();
  /// The model did not: the images are given up.
  void abandon();
  /// Removes those that are finished; their blocks are free at once.
  void drop_finished();

  /// Takes the state of a running sequence; it waits again. For tests, beside plan() itself.
  void preempt(const Sequence& sequence);
  void reset_cache();
  /// While nobody runs or waits: forgets all cached prefixes, and gives the store's memory back.
  void give_back_memory();

  // Between steps. Error: kUnsupported without a prefix cache.
  /// stoker::save_prefix, with the images that a continuation of `ids` may need.
  Result<int64_t> save_prefix(std::span<const int32_t> ids, std::vector<uint8_t>& out);
  /// stoker::load_prefix.
  Result<int64_t> load_prefix(const SavedPrefix& saved, std::span<const int32_t> token_map);
  /// PrefixCache::ends, without a salt.
  Result<std::vector<std::vector<int32_t>>> cached_prefixes(size_t max) const;

  /// In the order in which they are served.
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// Tells the metrics who runs and what is in use.
  void count() const;

  /// Tells what runs and waits: a line for all, and one for each of the first kMaxReported.
  void report(const std::function<void(std::string_view line)>& tell) const;
  static constexpr size_t kMaxReported = 512;

  /// What is wrong with blocks and their owners; empty: nothing. For tests.
  std::string integrity_problem() const;

 private:
  using Waiting = std::map<SequenceKey, std::unique_ptr<Sequence>>;

  void start_waiting();
  bool can_start(Sequence& sequence);
  void start(std::unique_ptr<Sequence> sequence);
  int64_t rows_for(Sequence& sequence, int64_t prefill_rows_left);
  bool must_wait_for_another(Sequence& sequence);
  void attach(Sequence& sequence);
  int64_t late_from(const Sequence& sequence) const;
  int64_t late_from(int64_t num_prompt, int64_t num_tokens) const;
  bool reserve_or_preempt(size_t at, int64_t rows);
  void preempt_last();
  void plan_images_of(Share& share);
  bool wants_image(const Sequence& sequence, int64_t position) const;
  bool is_kept(const Sequence& sequence, int64_t position) const;
  void leave(Sequence& sequence);
  void forget_deadline(const Sequence& sequence);
  bool uses_cache(const Sequence& sequence) const;

  KvStore& store_;
  const SchedulerOptions options_;
  Metrics& metrics_;
  std::optional<PrefixCache> cache_;
  Waiting waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::set<std::pair<Clock::time_point, SequenceKey>> deadlines_;
  std::vector<Share> shares_;
  int64_t num_requeued_ = 0;  // of those that wait, by preemption
};

}  // namespace stoker::engine
