#include "sampling/ranking.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

// Rises where the place in the ranking falls: the least key is that of the largest number.
uint32_t ranking_key(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x80000000U) != 0 ? bits : bits ^ 0x7FFFFFFFU;
}

// Leaves those of the order among whose keys, by the `width` bits from `shift` on, `need` is
// reached; what is needed of them.
double narrow(int shift, int width, double need, Scratch& scratch) {
  const auto digit_of = [&](int32_t place) {
    const uint32_t key = ranking_key(scratch.list.x[static_cast<size_t>(place)]);
    return key >> shift & ((1U << width) - 1);
  };
  scratch.sums.fill(0);
  for (const int32_t place : scratch.order)
    scratch.sums[digit_of(place)] += scratch.list.weight[static_cast<size_t>(place)];
  uint32_t digit = 0;
  while (need > scratch.sums[digit]) need -= scratch.sums[digit++];
  std::erase_if(scratch.order, [&](int32_t place) { return digit_of(place) != digit; });
  return need;
}

}  // namespace

float surely_below(float x, float distance) {
  return std::nextafter(x - distance - 1e-6F * std::abs(x), arith::kNegInf);
}

void list_above(std::span<const float> x, float value, Scratch& scratch) {
  Listed& list = scratch.list;
  list.reserve(x.size());
  list.count = static_cast<size_t>(scratch.scans->list_above(
      x.data(), static_cast<int64_t>(x.size()), value, list.ids.data(), list.x.data()));
  for (size_t i = 0; i < list.count; ++i) list.x[i] = list.x[i] + 0.0F;
}

Place end_of_head(double need, Scratch& scratch) {
  const Listed& list = scratch.list;
  std::vector<int32_t>& order = scratch.order;
  order.resize(list.count);
  std::iota(order.begin(), order.end(), 0);
  need = narrow(21, 11, std::max(need, 1.0), scratch);
  need = narrow(10, 11, need, scratch);
  need = narrow(0, 10, need, scratch);
  // All that are left have one value, and their ids ascend.
  const double weight = list.weight[static_cast<size_t>(order[0])];
  const auto last = static_cast<size_t>(order[static_cast<size_t>(std::ceil(need / weight)) - 1]);
  return {list.x[last], list.ids[last]};
}

Place end_of_first(size_t k, Scratch& scratch) {
  std::fill_n(scratch.list.weight.begin(), scratch.list.count, 1.0);
  return end_of_head(static_cast<double>(k), scratch);
}

void keep_head(Place last, Listed& list) {
  size_t kept = 0;
  for (size_t i = 0; i < list.count; ++i) {
    const float x = list.x[i];
    const int32_t id = list.ids[i];
    list.x[kept] = x;
    list.ids[kept] = id;
    kept += static_cast<size_t>(x > last.x || (x == last.x && id <= last.id));
  }
  list.count = kept;
}

}  // namespace stoker::sampling
