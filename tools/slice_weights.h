// Random weights in the formats of a checkpoint, with sizes at which a forward pass stays finite
// and the router spreads. Every byte follows from the seed, the tensor's name and its place in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/inventory.h"

namespace stoker::slice {

/// What a tensor of a file is filled with.
struct Filling {
  enum class Kind { kBf16, kF32, kE4m3, kE2m1, kScale };

  std::string name{};  ///< of the tensor
  DType dtype = DType::kF32;
  Shape shape{};
  Kind kind = Kind::kBf16;
  double mean = 0;        ///< kBf16, kF32
  double deviation = 0;   ///< kBf16, kF32
  int32_t diagonal = 0;   ///< kF32: not 0: the last diagonal * diagonal values are a matrix, on
                          ///< whose diagonal the mean is 2
  double mean_power = 0;  ///< kScale: the mean of the squared scales

  int64_t num_elements() const;
  int64_t size_bytes() const;
};

/// The tensors of a weight: its values, and its scales where it has them.
std::vector<Filling> fillings_of(const ModelConfig& config, const WeightSpec& spec);

/// A piece of a tensor's bytes: those at [first, first + out.size()). Both are multiples of 8, but
/// for the end of the tensor. Pieces put together are the same whatever their sizes.
void fill(const Filling& filling, uint64_t seed, int64_t first, std::span<uint8_t> out);

}  // namespace stoker::slice
