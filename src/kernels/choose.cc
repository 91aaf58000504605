#include "kernels/choose.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

constexpr int64_t kLeastRoom = 4096;

// Larger for a better score, and among equal ones for the lower index. -0 and 0 are equal.
uint64_t key_of(float score, int32_t index) {
  const auto bits = std::bit_cast<uint32_t>(score == 0 ? 0.0F : score);
  const uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<uint64_t>(ordered) << 32) | ~static_cast<uint32_t>(index);
}

// Leaves the k best of list [count], in their order. Returns the least of their scores.
float keep_best(const float* scores, int64_t k, int64_t& count, const ChoiceScratch& scratch) {
  for (int64_t i = 0; i < count; ++i)
    scratch.keys[i] = key_of(scores[scratch.list[i]], scratch.list[i]);
  std::nth_element(scratch.keys, scratch.keys + k - 1, scratch.keys + count,
                   std::greater<uint64_t>());
  const uint64_t least = scratch.keys[k - 1];
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t index = scratch.list[i];
    scratch.list[kept] = index;
    kept += static_cast<int64_t>(key_of(scores[index], index) >= least);
  }
  count = kept;
  return scores[static_cast<int32_t>(~static_cast<uint32_t>(least))];
}

}  // namespace

int64_t choice_room(int64_t k) {
  return std::max(kLeastRoom, 2 * k) + 64;
}

// A score that is not above the k-th best of those before it loses, also when it is equal, since
// its index is larger.
int64_t choose_best(const Kernels& kernels, const float* scores, int64_t n, int64_t k,
                    const ChoiceScratch& scratch, int32_t* out) {
  k = std::min(k, n);
  const int64_t room = choice_room(k);
  float threshold = arith::kNegInf;
  int64_t count = 0;
  for (int64_t at = 0; at < n;) {
    at = kernels.find_above(scores, at, n, threshold, scratch.list, room, count);
    if (at < n) threshold = keep_best(scores, k, count, scratch);
  }
  if (count > k) keep_best(scores, k, count, scratch);
  std::copy_n(scratch.list, count, out);
  return count;
}

int64_t choose_blocks(const Kernels& kernels, const float* scores, int64_t n, int64_t blocks,
                      int64_t size, const ChoiceScratch& scratch, float* best, int32_t* out) {
  const int64_t num_blocks = (n + size - 1) / size;
  for (int64_t block = 0; block < num_blocks; ++block) {
    float most = arith::kNegInf;
    for (int64_t j = block * size; j < std::min((block + 1) * size, n); ++j)
      most = scores[j] > most ? scores[j] : most;
    best[block] = most;
  }
  if (num_blocks > 0) best[num_blocks - 1] = std::numeric_limits<float>::infinity();
  return choose_best(kernels, best, num_blocks, blocks, scratch, out);
}

}  // namespace stoker::kernels
