// What one thread samples with: an instruction set, and memory that is kept between calls.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sampling/cpu/scans.h"

namespace stoker::sampling {

/// Some ids of a row, ascending, with their values. The arrays are longer than the list.
struct Listed {
  size_t count = 0;
  std::vector<int32_t> ids;
  std::vector<float> x;
  std::vector<double> weight;  ///< whole numbers

  /// Makes room for so many, and what scans write behind them.
  void reserve(size_t size) {
    constexpr size_t kBehind = 15;
    if (ids.size() >= size + kBehind) return;
    ids.resize(size + kBehind);
    x.resize(size + kBehind);
    weight.resize(size + kBehind);
  }
};

/// One for each thread. Grows to the vocabulary.
struct Scratch {
  /// For a level that the processor has.
  explicit Scratch(kernels::Isa isa) : scans(&scans_of(isa)) {}

  const Scans* scans;
  std::vector<float> shaped;  ///< logits after bias, bans and penalties
  std::vector<float> scaled;  ///< divided by the temperature
  Listed list;
  std::vector<int32_t> order;  ///< places in the list
  std::array<double, 2048> sums{};
};

}  // namespace stoker::sampling
