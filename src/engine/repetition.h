// Whether an answer has come to repeat itself: its end is the same pattern of tokens, so many times
// over. Follows from the tokens alone, so that neither drafts nor a preemption change it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker::engine {

/// Patterns of min_size to max_size tokens, min_count times; 1 <= min_size <= max_size, min_count
/// >= 2. A plain value.
struct RepetitionLimit {
  int32_t max_size = 0;
  int32_t min_size = 1;
  int32_t min_count = 2;
};

/// One owner.
class RepetitionWatch {
 public:
  explicit RepetitionWatch(const RepetitionLimit& limit);

  /// Told of each token, when it is the last of `answer`: whether that now ends with a pattern as
  /// often as is looked for. O(max_size).
  bool accept(std::span<const int32_t> answer);

 private:
  RepetitionLimit limit_;
  /// Of each size: how many tokens at the end are each the one that stands `size` tokens before.
  std::vector<int32_t> num_equal_;
};

}  // namespace stoker::engine
