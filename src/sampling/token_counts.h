// How often each token came in a sequence, for penalties: a sorted list of those that came, kept as
// tokens are accepted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker::sampling {

/// A value; one owner.
class TokenCounts {
 public:
  struct Entry {
    int32_t id = 0;
    int32_t count = 0;  ///< in the answer; 0: in the prompt alone
  };

  TokenCounts() = default;
  /// Nothing accepted yet.
  explicit TokenCounts(std::span<const int32_t> prompt);

  void accept(int32_t id);

  /// By rising id.
  std::span<const Entry> entries() const { return entries_; }
  /// The count in the answer; -1: nowhere.
  int32_t count_of(int32_t id) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace stoker::sampling
