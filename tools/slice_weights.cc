#include "tools/slice_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "tensor/formats.h"

namespace stoker::slice {
namespace {

// Codes are random bytes; an e4m3 code has bit 6 off, so that none is NaN and none above 1.875.
constexpr uint64_t kE4m3Mask = 0xBFBF'BFBF'BFBF'BFBF;

// How the values of a weight are spread: standard deviation around mean.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

// A weight whose spread is not that of its width; the first row whose part is in its name counts.
struct Row {
  std::string_view part;
  double mean;
  double deviation;  // of itself
  double gain;       // on top, for each 1 / sqrt(columns)
};

// Norms near 1; projections that keep the size of what goes through them; outputs of half the size,
// so that no layer drowns the streams. Routers have logits of deviation 1, against biases of 0.05.
constexpr Row kRows[] = {
    {"_norm.weight", 1, 0.2, 0},
    {".norm.weight", 1, 0.2, 0},
    {"engram.q_weight", 1, 0.3, 0},
    {"engram.k_weight", 1, 0.3, 0},
    {"_scale", 0.8, 0.1, 0},
    {"_base", 0, 0.6, 0},
    {"attn_sink", 0, 1, 0},
    {"gate.bias", 0, 0.05, 0},
    {"engram.embed", 0, 0, 3},
    {"weights_proj", 0.02, 0, 1},
    {"markov_head.embed", 0, 1, 0},
    {"wq_b", 0, 0, 1.5},
    {"wo_b", 0, 0, 0.5},
    {".w2.", 0, 0, 0.5},
};

Spread spread_of(const WeightSpec& spec) {
  const double of_width = 1 / std::sqrt(static_cast<double>(spec.cols));
  if (spec.name == "embed.weight") return {0, 1};
  if (spec.name == "head.weight") return {0, 2 * of_width};
  if (spec.name == "norm.weight") return {1, 0.2};
  for (const Row& row : kRows) {
    if (spec.name.find(row.part) != std::string::npos)
      return {row.mean, row.deviation + row.gain * of_width};
  }
  return {0, of_width};
}

// splitmix64's finalizer: a bijection whose outputs look independent.
uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The numbers of one tensor, by place.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name) : key_(mixed(seed + kStep)) {
    for (const char c : name) key_ = mixed(key_ ^ static_cast<unsigned char>(c)) + kStep;
  }

  uint64_t at(int64_t place) const { return mixed(key_ + static_cast<uint64_t>(place) * kStep); }

  // Near a normal distribution: four uniform numbers added, of variance 1 together.
  double normal_at(int64_t place) const {
    const uint64_t bits = at(place);
    const uint64_t sum =
        (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    return (static_cast<double>(sum) / 65535 - 2) * std::sqrt(3.0);
  }

  // In [0, 1).
  double uniform_at(int64_t place) const { return static_cast<double>(at(place) >> 11) * 0x1p-53; }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  uint64_t key_;
};

// The mean of the squares of the codes that are drawn.
double mean_square(Filling::Kind kind) {
  double sum = 0;
  int count = 0;
  if (kind == Filling::Kind::kE2m1) {
    for (const float value : kE2m1Values) sum += value * value;
    return sum / static_cast<double>(kE2m1Values.size());
  }
  for (unsigned code = 0; code < 256; ++code) {
    if ((code & ~kE4m3Mask & 0xFF) != 0) continue;
    const double value = e4m3_decode(static_cast<uint8_t>(code));
    sum += value * value;
    ++count;
  }
  return sum / count;
}

double mean_at(const Filling& filling, int64_t place) {
  const int64_t in_matrix =
      place - filling.num_elements() + int64_t{filling.diagonal} * filling.diagonal;
  const bool is_diagonal =
      filling.diagonal > 0 && in_matrix >= 0 && in_matrix % (filling.diagonal + 1) == 0;
  return is_diagonal ? 2 : filling.mean;
}

// Codes: as they are drawn, eight of a draw.
void fill_codes(const Draws& draws, uint64_t mask, int64_t first, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t bits = draws.at((first + static_cast<int64_t>(i)) / 8) & mask;
    std::memcpy(out.data() + i, &bits, std::min<size_t>(8, out.size() - i));
  }
}

// A power of two or the next one, so often that the mean of their squares is the one wanted.
void fill_scales(const Filling& filling, const Draws& draws, int64_t first,
                 std::span<uint8_t> out) {
  const int exponent = static_cast<int>(std::floor(std::log2(filling.mean_power) / 2));
  const double share = (std::exp2(std::log2(filling.mean_power) - 2 * exponent) - 1) / 3;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool is_next = draws.uniform_at(first + static_cast<int64_t>(i)) < share;
    out[i] = static_cast<uint8_t>(127 + exponent + (is_next ? 1 : 0));
  }
}

template <class T, class Encode>
void fill_values(const Filling& filling, const Draws& draws, int64_t first, std::span<uint8_t> out,
                 const Encode& encode) {
  for (size_t i = 0; i < out.size(); i += sizeof(T)) {
    const int64_t place = (first + static_cast<int64_t>(i)) / static_cast<int64_t>(sizeof(T));
    const T value = encode(
        static_cast<float>(mean_at(filling, place) + filling.deviation * draws.normal_at(place)));
    std::memcpy(out.data() + i, &value, sizeof value);
  }
}

Filling::Kind kind_of(DType values) {
  if (values == DType::kBF16) return Filling::Kind::kBf16;
  if (values == DType::kF32) return Filling::Kind::kF32;
  return values == DType::kF8E4M3 ? Filling::Kind::kE4m3 : Filling::Kind::kE2m1;
}

}  // namespace

int64_t Filling::num_elements() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

int64_t Filling::size_bytes() const {
  return num_elements() * dtype_info(dtype).size_bytes;
}

std::vector<Filling> fillings_of(const ModelConfig& config, const WeightSpec& spec) {
  const TensorSpec values = values_of(spec);
  const Spread spread = spread_of(spec);
  Filling filling{.name = values.name,
                  .dtype = values.dtypes.front(),
                  .shape = values.shape,
                  .kind = kind_of(values.dtypes.front()),
                  .mean = spread.mean,
                  .deviation = spread.deviation};
  // Streams that mix are mostly what they were before.
  if (spec.name.ends_with("_base")) filling.diagonal = config.hc_mult;
  std::vector<Filling> fillings{filling};
  if (const auto scales = scales_of(spec)) {
    fillings.push_back(
        {.name = scales->name,
         .dtype = scales->dtypes.front(),
         .shape = scales->shape,
         .kind = Filling::Kind::kScale,
         .mean_power = spread.deviation * spread.deviation / mean_square(filling.kind)});
  }
  return fillings;
}

void fill(const Filling& filling, uint64_t seed, int64_t first, std::span<uint8_t> out) {
  const Draws draws(seed, filling.name);
  switch (filling.kind) {
    case Filling::Kind::kBf16:
      fill_values<uint16_t>(filling, draws, first, out, bf16_encode);
      return;
    case Filling::Kind::kF32:
      fill_values<float>(filling, draws, first, out, [](float x) { return x; });
      return;
    case Filling::Kind::kE4m3:
      fill_codes(draws, kE4m3Mask, first, out);
      return;
    case Filling::Kind::kE2m1:
      fill_codes(draws, ~uint64_t{0}, first, out);
      return;
    case Filling::Kind::kScale:
      fill_scales(filling, draws, first, out);
      return;
  }
}

}  // namespace stoker::slice
