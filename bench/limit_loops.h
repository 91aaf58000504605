// The loops of bench/limits.h for a level's own translation unit.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace stoker::bench {

/// Enough independent sums to fill two units of a latency of six.
inline constexpr int kChains = 12;

template <class L>
[[gnu::noinline]] void read_all(const uint8_t* data, int64_t bytes) {
  constexpr int64_t kAhead = 2048;
  typename L::Word sums[4] = {};
  constexpr int64_t kBytes = sizeof(typename L::Word);
  for (int64_t at = 0; at + 4 * kBytes <= bytes; at += 4 * kBytes) {
    for (int64_t line = 0; line < 4 * kBytes; line += 64)
      __builtin_prefetch(data + at + line + kAhead);
    for (int i = 0; i < 4; ++i) sums[i] = sums[i] | L::load_words(data + at + i * kBytes);
  }
  const typename L::Word all = sums[0] | sums[1] | sums[2] | sums[3];
  asm volatile("" : : "m"(all) : "memory");
}

template <class L>
[[gnu::noinline]] double multiply_all(int64_t millions) {
  typename L::Float acc[kChains];
  for (auto& sum : acc) {
    sum = L::zero();
    asm volatile("" : "+v"(sum));  // chains are not seen to be the same
  }
  const float one = 1.0F;
  const auto w = L::broadcast(&one);
  auto x = L::broadcast(&one);
  constexpr double kFlops = 2.0 * kChains * sizeof(acc[0]) / sizeof(float);
  const auto rounds = static_cast<int64_t>(static_cast<double>(millions) * 1e6 / kFlops);
  for (int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) acc[c] = L::mac(w, x, acc[c]);
    asm volatile("" : "+v"(x));  // nor to be the same in every round
  }
  for (auto& sum : acc) asm volatile("" : : "v"(sum));
  return static_cast<double>(rounds) * kFlops;
}

}  // namespace stoker::bench
