#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace stoker::engine {

bool Scheduler::can_start(const Sequence& sequence) const {
  if (store_.num_free_slots() == 0) return false;
  // Each that runs may need one more block soon; starting somebody only to preempt him then would
  // be work for nothing.
  const auto margin = static_cast<int64_t>(running_.size());
  return blocks_for(sequence.num_tokens()) + margin <= store_.num_free_blocks();
}

void Scheduler::start(std::unique_ptr<Sequence> sequence) {
  sequence->state = SequenceState::create(store_, blocks_for(sequence->max_tokens()));
  CHECK(sequence->state, "can_start() saw a free slot");
  running_.push_back(std::move(sequence));
}

std::vector<Share> Scheduler::plan(std::vector<std::unique_ptr<Sequence>>& preempted) {
  std::vector<Share> shares;
  int64_t chunk_rows_left = max_chunk_rows_;
  for (size_t at = 0; at < running_.size(); ++at) {
    Sequence& sequence = *running_[at];
    const int64_t behind = sequence.num_behind();
    const int64_t rows = behind == 1 ? 1 : std::min(behind, chunk_rows_left);
    if (rows == 0) continue;  // a later step's
    if (!reserve_or_preempt(at, rows, preempted)) break;
    if (behind > 1) chunk_rows_left -= rows;
    shares.push_back({&sequence, rows});
  }
  return shares;
}

// Blocks for `rows` more tokens of the sequence at `at`, taken from those behind it if need be.
// False: it was preempted itself, being the last.
bool Scheduler::reserve_or_preempt(size_t at, int64_t rows,
                                   std::vector<std::unique_ptr<Sequence>>& preempted) {
  SequenceState& state = *running_[at]->state;
  while (!state.reserve(state.length() + rows)) {
    const bool is_last = at + 1 == running_.size();
    CHECK(!is_last || at > 0,
          "a request alone fits the store: it was checked when it was submitted");
    preempt_last(preempted);
    if (is_last) return false;
  }
  return true;
}

void Scheduler::preempt_last(std::vector<std::unique_ptr<Sequence>>& preempted) {
  running_.back()->state.reset();
  preempted.push_back(std::move(running_.back()));
  running_.pop_back();
}

void Scheduler::drop_finished() {
  std::erase_if(running_,
                [](const std::unique_ptr<Sequence>& sequence) { return sequence->finished; });
}

std::string Scheduler::integrity_problem() const {
  std::vector<int32_t> references(static_cast<size_t>(store_.plan().num_blocks), 0);
  for (const auto& sequence : running_) {
    for (const BlockId block : sequence->state->blocks()) ++references[static_cast<size_t>(block)];
    if (sequence->state->blocks_missing(sequence->state->length()) > 0)
      return "a position without a block";
  }
  const auto num_slots = static_cast<int64_t>(running_.size()) + store_.num_free_slots();
  if (num_slots != store_.plan().num_slots) return "a slot is lost";
  return store_.integrity_problem(references);
}

}  // namespace stoker::engine
