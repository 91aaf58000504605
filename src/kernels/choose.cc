#include "kernels/choose.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "kernels/index.h"
#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

constexpr int64_t kLeastRoom = 8192;

// The list of a choice: what may still be among the k best, ascending by index.
struct Shortlist {
  const Kernels& kernels;
  const ChoiceScratch& scratch;
  int64_t k = 0;
  int64_t room = 0;
  int64_t count = 0;
};

// Leaves the k best. Returns the least of them. Of equal scores the first ones are the best.
float keep_best(const float* scores, Shortlist& list) {
  const ChoiceScratch& scratch = list.scratch;
  const int64_t k = list.k;
  std::nth_element(scratch.values, scratch.values + k - 1, scratch.values + list.count,
                   std::greater<float>());
  const float least = scratch.values[k - 1];
  int64_t room_for_least = k;
  for (int64_t i = 0; i < k; ++i) room_for_least -= static_cast<int64_t>(scratch.values[i] > least);
  int64_t kept = 0;
  for (int64_t i = 0; i < list.count; ++i) {
    const int32_t index = scratch.list[i];
    const float score = scores[index];
    const bool is_least = score == least;
    scratch.list[kept] = index;
    scratch.values[kept] = score;
    kept += static_cast<int64_t>(score > least || (is_least && room_for_least > 0));
    room_for_least -= static_cast<int64_t>(is_least);
  }
  list.count = kept;
  return least;
}

// A score that about 2 k of the list exceed, by a sample of it; none where that is most of it.
std::optional<float> guess_limit(const Shortlist& list) {
  constexpr int64_t kSample = 128;
  const int64_t rank = kSample * 2 * list.k / list.count;
  if (rank > kSample / 2) return std::nullopt;
  std::array<float, kSample> sample;
  for (int64_t i = 0; i < kSample; ++i)
    sample[static_cast<size_t>(i)] = list.scratch.values[i * list.count / kSample];
  std::nth_element(sample.begin(), sample.begin() + rank, sample.end(), std::greater<float>());
  return sample[static_cast<size_t>(rank)];
}

// Cuts the list down, to the k best or a few more. Returns a score that k of it reach: what is not
// above it loses, also when it is equal, since its index is larger.
float cut(const float* scores, Shortlist& list) {
  const ChoiceScratch& scratch = list.scratch;
  const std::optional<float> limit = guess_limit(list);
  if (!limit) return keep_best(scores, list);
  int64_t kept = 0;
  const int64_t end = list.kernels.find_above(scratch.values, 0, list.count, *limit,
                                              {scratch.values, scratch.picked, list.room}, kept);
  if (end < list.count || kept < list.k) {  // many are equal, or the sample was a poor one
    for (int64_t i = 0; i < list.count; ++i) scratch.values[i] = scores[scratch.list[i]];
    return keep_best(scores, list);
  }
  for (int64_t i = 0; i < kept; ++i) scratch.list[i] = scratch.list[scratch.picked[i]];
  list.count = kept;
  return *limit;
}

}  // namespace

int64_t choice_room(int64_t k) {
  return std::max(kLeastRoom, 2 * k) + 64;
}

int64_t choose_best(const Kernels& kernels, const float* scores, int64_t n, int64_t k,
                    const ChoiceScratch& scratch, int32_t* out) {
  k = std::min(k, n);
  Shortlist list{kernels, scratch, k, choice_room(k)};
  float threshold = arith::kNegInf;
  for (int64_t at = 0; at < n;) {
    at = kernels.find_above(scores, at, n, threshold, {scratch.values, scratch.list, list.room},
                            list.count);
    if (at < n) threshold = cut(scores, list);
  }
  if (list.count > 4 * k) cut(scores, list);
  if (list.count > k) keep_best(scores, list);
  std::copy_n(scratch.list, list.count, out);
  return list.count;
}

int64_t choose_blocks(const Kernels& kernels, const float* scores, int64_t n, int64_t blocks,
                      int64_t size, const ChoiceScratch& scratch, float* best, int32_t* out) {
  const int64_t num_blocks = block_maxima(scores, n, size, best);
  return choose_best(kernels, best, num_blocks, blocks, scratch, out);
}

}  // namespace stoker::kernels
