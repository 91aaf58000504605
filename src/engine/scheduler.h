// Who runs, and how many rows each gets in a step. One rule: the state of every running sequence
// catches up with its tokens, so that prefill, decode and running again after a preemption are the
// same thing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/sequence.h"
#include "kv/kv_store.h"

namespace stoker::engine {

/// What a sequence gets in a step: its next `rows` tokens, for which blocks are reserved.
struct Share {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
};

/// Holds the running sequences in the order of their arrival. Decides nothing by chance or by time.
/// The engine's thread only.
class Scheduler {
 public:
  /// max_chunk_rows: rows that all sequences which are more than one token behind get together in a
  /// step; >= 1.
  Scheduler(KvStore& store, int64_t max_chunk_rows)
      : store_(store), max_chunk_rows_(max_chunk_rows) {}

  /// Whether there is a slot, and blocks for all tokens of the sequence beside one more for each
  /// that runs. Always, if none runs and its tokens fit the store.
  bool can_start(const Sequence& sequence) const;

  /// Gives the sequence an empty state and adds it behind the others. can_start() holds.
  void start(std::unique_ptr<Sequence> sequence);

  /// The shares of the next step. Where blocks run out, those that arrived last lose their state
  /// and are moved to `preempted`, the last first. The first to arrive is never among them.
  std::vector<Share> plan(std::vector<std::unique_ptr<Sequence>>& preempted);

  /// Removes the sequences that are finished; their blocks are free at once.
  void drop_finished();
  void drop_all() { running_.clear(); }

  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }

  /// What is wrong with blocks and their owners; empty: nothing. For tests.
  std::string integrity_problem() const;

 private:
  bool reserve_or_preempt(size_t at, int64_t rows,
                          std::vector<std::unique_ptr<Sequence>>& preempted);
  void preempt_last(std::vector<std::unique_ptr<Sequence>>& preempted);

  KvStore& store_;
  const int64_t max_chunk_rows_;
  std::vector<std::unique_ptr<Sequence>> running_;
};

}  // namespace stoker::engine
