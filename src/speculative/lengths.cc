#include "speculative/lengths.h"

#include <algorithm>

namespace stoker::speculative {

// A heap of the sequences by the survival of their next draft: as survivals never rise, taking the
// top again and again goes through all drafts in their order.
Expected LengthChooser::choose(std::span<Verifiable> sequences, const PlainStep& step,
                               const CostModel& costs, int64_t max_rows) {
  const auto next = [sequences](int32_t i) {
    const Verifiable& of = sequences[static_cast<size_t>(i)];
    return of.survival[static_cast<size_t>(of.length)];
  };
  const auto is_after = [&next](int32_t a, int32_t b) {
    return next(a) < next(b) || (next(a) == next(b) && a > b);
  };
  heap_.clear();
  taken_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].length = 0;
    if (!sequences[i].survival.empty()) heap_.push_back(static_cast<int32_t>(i));
  }
  std::ranges::make_heap(heap_, is_after);

  Expected expected{static_cast<double>(step.tokens),
                    step.other_seconds + costs.step_seconds(step.rows)};
  Expected best = expected;
  size_t num_best = 0;
  while (!heap_.empty() && step.rows + static_cast<int64_t>(taken_.size()) < max_rows) {
    std::ranges::pop_heap(heap_, is_after);
    Verifiable& of = sequences[static_cast<size_t>(heap_.back())];
    expected.tokens += static_cast<double>(next(heap_.back()));
    taken_.push_back(heap_.back());
    expected.seconds =
        step.other_seconds + costs.step_seconds(step.rows + static_cast<int64_t>(taken_.size()));
    if (expected.rate() > best.rate()) {
      best = expected;
      num_best = taken_.size();
    }
    if (++of.length < static_cast<int32_t>(of.survival.size())) {
      std::ranges::push_heap(heap_, is_after);
    } else {
      heap_.pop_back();
    }
  }
  if (num_best > 0 && num_best < taken_.size() &&
      !costs.knows_step(step.rows + static_cast<int64_t>(num_best) + 1)) {
    ++num_best;
  }
  for (Verifiable& of : sequences) of.length = 0;
  for (size_t i = 0; i < num_best; ++i) ++sequences[static_cast<size_t>(taken_[i])].length;
  return best;
}

}  // namespace stoker::speculative
