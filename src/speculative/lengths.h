// How many drafts of each sequence a step verifies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "speculative/cost_model.h"

namespace stoker::speculative {

/// Drafts of a sequence that may be verified: survival[k] is the probability that draft k is
/// accepted with all before it, never rising. Out: how many are to be verified.
struct Verifiable {
  std::span<const float> survival{};
  int32_t length = 0;
};

/// A step before drafts are added to it.
struct PlainStep {
  int64_t rows = 0;
  int64_t tokens = 0;        ///< sequences that get a token from it
  double other_seconds = 0;  ///< that it takes beside: its draft round, rows of prompts
};

/// What is expected of a step.
struct Expected {
  double tokens = 0;
  double seconds = 0;
  double rate() const { return seconds > 0 ? tokens / seconds : 0; }
};

/// Chooses lengths; keeps the memory for it.
class LengthChooser {
 public:
  /// Sets the lengths that give the most expected tokens a second, over all sequences at once: the
  /// drafts in the order of their survival, cut where that is highest; of equal ones the earlier
  /// sequence's first. One more where the cost of that is only guessed. At most max_rows rows in
  /// all. Whatever the lengths, they change no answer:
  /// drafts are compared with the target's own choice.
  Expected choose(std::span<Verifiable> sequences, const PlainStep& step, const CostModel& costs,
                  int64_t max_rows);

 private:
  std::vector<int32_t> heap_;
  std::vector<int32_t> taken_;  // the sequences of the drafts in their order
};

}  // namespace stoker::speculative
