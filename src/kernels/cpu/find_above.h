// The scan under the choice of the best scores.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels.h"

namespace stoker::kernels {

/// Kernels::find_above.
template <class L>
int64_t find_above(const float* scores, int64_t begin, int64_t n, float threshold,
                   const ScoreList& list, int64_t& count) {
  constexpr int64_t kTogether = 64;
  const auto limit = L::broadcast(&threshold);
  int64_t at = begin;
  for (; at + kTogether <= n && count + kTogether <= list.room; at += kTogether) {
    uint64_t above = 0;
    for (int64_t i = 0; i < kTogether; i += L::kLanes)
      above |= static_cast<uint64_t>(L::is_above(L::load(scores + at + i), limit)) << i;
    if (above == 0) continue;
    count += L::list_bits(above, static_cast<int32_t>(at), scores + at, list.index + count,
                          list.values + count);
  }
  for (; at < n && count < list.room && n - at < kTogether; ++at) {
    if (!(scores[at] > threshold)) continue;
    list.values[count] = scores[at];
    list.index[count++] = static_cast<int32_t>(at);
  }
  return at;
}

}  // namespace stoker::kernels
