// The scan under the choice of the best scores.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// Appends the indices in [begin, n) of scores above `threshold` to `list`, ascending, as long as
/// 64 more fit into `room`. `count` is how many there are and becomes how many there are then.
/// Returns where it stopped.
template <class L>
int64_t find_above(const float* scores, int64_t begin, int64_t n, float threshold, int32_t* list,
                   int64_t room, int64_t& count) {
  constexpr int64_t kTogether = 64;
  const auto limit = L::broadcast(&threshold);
  int64_t at = begin;
  for (; at + kTogether <= n && count + kTogether <= room; at += kTogether) {
    uint64_t above = 0;
    for (int64_t i = 0; i < kTogether; i += L::kLanes)
      above |= static_cast<uint64_t>(L::is_above(L::load(scores + at + i), limit)) << i;
    if (above == 0) continue;
    count += L::list_bits(above, static_cast<int32_t>(at), list + count);
  }
  for (; at < n && count < room && n - at < kTogether; ++at) {
    if (scores[at] > threshold) list[count++] = static_cast<int32_t>(at);
  }
  return at;
}

}  // namespace stoker::kernels
