#include "kernels/choose.h"

#include <algorithm>
#include <functional>

#include "kernels/index.h"
#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

constexpr int64_t kLeastRoom = 8192;

// Leaves the k best of list [count], in their order. Returns the least of their scores. The list is
// ascending, so of equal scores the first ones are the best.
float keep_best(const float* scores, int64_t k, int64_t& count, const ChoiceScratch& scratch) {
  for (int64_t i = 0; i < count; ++i) scratch.values[i] = scores[scratch.list[i]];
  std::nth_element(scratch.values, scratch.values + k - 1, scratch.values + count,
                   std::greater<float>());
  const float least = scratch.values[k - 1];
  int64_t room_for_least = k;
  for (int64_t i = 0; i < k; ++i) room_for_least -= static_cast<int64_t>(scratch.values[i] > least);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t index = scratch.list[i];
    const float score = scores[index];
    const bool is_least = score == least;
    scratch.list[kept] = index;
    kept += static_cast<int64_t>(score > least || (is_least && room_for_least > 0));
    room_for_least -= static_cast<int64_t>(is_least);
  }
  count = kept;
  return least;
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
  const int64_t num_blocks = block_maxima(scores, n, size, best);
  return choose_best(kernels, best, num_blocks, blocks, scratch, out);
}

}  // namespace stoker::kernels
