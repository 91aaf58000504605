#include "kernels/cpu/levels.h"

#include <cpuid.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::kernels {
namespace {

struct Level {
  Isa isa;
  std::string_view name;
  const Kernels& kernels;
};

constexpr std::array<Level, kNumLevels> kLevels = {
    {{Isa::kAvx2, "avx2", kAvx2Kernels},
     {Isa::kAvx512, "avx512", kAvx512Kernels},
     {Isa::kAvx512Bf16, "avx512bf16", kAvx512Bf16Kernels}}};

// clang 14 does not know this name in __builtin_cpu_supports. Asked once: a virtual machine takes a
// long time to answer.
bool has_f16c() {
  static const bool has = [] {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return has;
}

bool is_usable(Isa isa) {
  const bool avx2 =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  switch (isa) {
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512vbmi") != 0 &&
             __builtin_cpu_supports("avx512bf16") != 0;
  }
  return false;
}

bool is_pair_format(WeightFormat format) {
  return format == WeightFormat::kFp4Panel || format == WeightFormat::kFp8Panel;
}

// Steps of a row, in whole runs.
int64_t padded_steps(WeightFormat format, bool bf16_pairs, int64_t cols) {
  const int64_t steps = is_pair_format(format) && bf16_pairs ? cols / 2 : cols;
  return (steps + kRunSteps - 1) / kRunSteps * kRunSteps;
}

// Columns 0, 4, 1, 5, 2, 6, 3, 7 of each eight; count is a multiple of 8.
void in_order_of_fp4(uint16_t* values, int64_t count) {
  for (int64_t first = 0; first < count; first += 8) {
    uint16_t own[8];
    std::copy_n(values + first, 8, own);
    for (int64_t k = 0; k < 8; ++k) values[first + k] = own[k % 2 * 4 + k / 2];
  }
}

}  // namespace

std::string_view isa_name(Isa isa) {
  return kLevels[static_cast<size_t>(isa)].name;
}

std::optional<Isa> isa_of(std::string_view name) {
  for (const Level& level : kLevels) {
    if (level.name == name) return level.isa;
  }
  return std::nullopt;
}

std::vector<Isa> usable_levels() {
  std::vector<Isa> usable;
  for (const Level& level : kLevels) {
    if (is_usable(level.isa)) usable.push_back(level.isa);
  }
  return usable;
}

const Kernels& kernels_of(Isa isa) {
  CHECK(is_usable(isa), "the processor has the level");
  return kLevels[static_cast<size_t>(isa)].kernels;
}

int64_t arranged_floats(WeightFormat format, bool bf16_pairs, int64_t rows, int64_t cols) {
  return rows * padded_steps(format, bf16_pairs, cols);
}

void arrange(WeightFormat format, bool bf16_pairs, const float* x, int64_t cols, int64_t row,
             int64_t rows, float* out) {
  const int64_t steps = padded_steps(format, bf16_pairs, cols);
  const bool pairs = is_pair_format(format);
  const int64_t columns = pairs && bf16_pairs ? 2 * kRunSteps : kRunSteps;
  for (int64_t run = 0; run < steps / kRunSteps; ++run) {
    float* to = out + (run * rows + row) * kRunSteps;
    const float* from = x + run * columns;
    const int64_t count = std::min(columns, cols - run * columns);
    if (!pairs) {
      std::copy_n(from, count, to);
      std::fill(to + count, to + kRunSteps, 0.0F);
      continue;
    }
    uint16_t values[2 * kRunSteps];
    for (int64_t k = 0; k < count; ++k) values[k] = bf16_encode(from[k]);
    if (format == WeightFormat::kFp4Panel) in_order_of_fp4(values, count);
    if (bf16_pairs) {
      __builtin_memcpy(to, values, static_cast<size_t>(count) * sizeof(uint16_t));
    } else {
      for (int64_t k = 0; k < count; ++k) to[k] = bf16_decode(values[k]);
    }
  }
}

void arrange_parts(const float* x, int64_t cols, float* out) {
  const int64_t run = cols / kNumParts;
  for (int64_t k = 0; k < run; ++k) {
    for (int64_t part = 0; part < kNumParts; ++part) out[k * kNumParts + part] = x[part * run + k];
  }
}

int64_t attend_scratch_floats(int32_t heads, int64_t dim, int64_t num_keys) {
  const int64_t lanes = (heads + 15) / 16 * 16;
  return ((dim + 63) / 64 * 64 + num_keys + num_keys % 2 + 1) * lanes;
}

int64_t index_scratch_floats(int64_t rows, int32_t heads, int64_t dim) {
  return rows * heads * kPanelRows + packed_size(WeightFormat::kFp4Panel, 1, dim).data / 4;
}

}  // namespace stoker::kernels
