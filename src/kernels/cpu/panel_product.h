// Products of one panel of packed weights. Few rows of activations: weights are converted in
// registers, where they are used. More: a piece of the panel is converted into the first-level
// cache and used by tiles. Both are the same chains.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels.h"
#include "kernels/cpu/tile.h"
#include "tensor/panels.h"

namespace stoker::kernels {

inline constexpr int64_t kPrefetchBytes = 3072;  // ahead of what is read
inline constexpr int64_t kBlockRows = 192;       // of activations, beside a piece

template <class L>
inline constexpr int kVectors = static_cast<int>(kPanelRows / L::kLanes);  // of a panel

template <class L>
struct Fp4Panel {
  static constexpr int64_t kBlockBytes = kFp4BlockBytes;

  /// use(pair, vector, L::Pair) for all of a block of 32 columns, pairs ascending in each vector.
  template <class Use>
  [[gnu::always_inline]] static inline void block(const uint8_t* at, const uint8_t* /*scale*/,
                                                  const Use& use) {
    typename L::Word scales[kVectors<L>];
    for (int v = 0; v < kVectors<L>; ++v) scales[v] = L::fp4_scales(at + v * L::kLanes);
    __builtin_prefetch(at + kPrefetchBytes);
    for (int step = 0; step < 4; ++step) {
      for (int v = 0; v < kVectors<L>; ++v) {
        const uint8_t* codes = at + kPanelRows + (step * kVectors<L> + v) * L::kLanes * 4;
        if (v * L::kLanes % 16 == 0) __builtin_prefetch(codes + kPrefetchBytes);
        typename L::Word pairs[4];
        L::fp4(L::load_words(codes), scales[v], pairs);
        for (int t = 0; t < 4; ++t) use(step * 4 + t, v, L::of_words(pairs[t]));
      }
    }
  }
};

template <class L>
struct Fp8Panel {
  static constexpr int64_t kBlockBytes = kFp8BlockBytes;

  template <class Use>
  [[gnu::always_inline]] static inline void block(const uint8_t* at, const uint8_t* scale,
                                                  const Use& use) {
    const typename L::Fp8Scale scales[2] = {L::fp8_scale(scale[0]), L::fp8_scale(scale[1])};
    for (int step = 0; step < 8; ++step) {
      for (int v = 0; v < kVectors<L>; ++v) {
        const uint8_t* codes = at + (step * kVectors<L> + v) * L::kLanes * 4;
        if (v * L::kLanes % 16 == 0) __builtin_prefetch(codes + kPrefetchBytes);
        typename L::Pair pairs[2];
        L::fp8_pairs(L::load_words(codes), scales[2 * v / kVectors<L>], pairs);
        use(step * 2, v, pairs[0]);
        use(step * 2 + 1, v, pairs[1]);
      }
    }
  }
};

inline constexpr int64_t kPairsPerBlock = kPanelBlock / 2;

/// Sums of T rows into the rows of y, as far as the panel is live.
template <class L, int T>
[[gnu::always_inline]] inline void store_rows(const typename L::Float (&acc)[T][kVectors<L>],
                                              const PanelJob& job) {
  alignas(64) float out[kPanelRows];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVectors<L>; ++v) L::store(out + v * L::kLanes, acc[t][v]);
    __builtin_memcpy(job.y + t * job.y_stride, out, static_cast<size_t>(job.width) * sizeof(float));
  }
}

template <class L, class Format, int T>
[[gnu::noinline]] void few_rows(const PanelJob& job) {
  typename L::Float acc[T][kVectors<L>];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVectors<L>; ++v) acc[t][v] = L::zero();
  }
  constexpr int64_t kBlockSteps = kPairsPerBlock * L::kStepsPerPair;
  const int64_t blocks = job.cols / kPanelBlock;
  const float* x[T];
  for (int t = 0; t < T; ++t) x[t] = job.x.row(t);
  const uint8_t* at = job.data;
  const uint8_t* scale = job.scale;
  for (int64_t block = 0; block < blocks; ++block, at += Format::kBlockBytes, scale += 2) {
    const int64_t step = block * kBlockSteps;
    const int64_t place = step / kRunSteps * job.x.all * kRunSteps + step % kRunSteps;
    Format::block(
        at, scale, [&](int pair, int v, typename L::Pair w) __attribute__((always_inline)) {
          for (int t = 0; t < T; ++t)
            acc[t][v] = L::add_pair(w, x[t] + place + pair * L::kStepsPerPair, acc[t][v]);
        });
  }
  store_rows<L, T>(acc, job);
}

/// Steps [first, first + count) of a panel of pairs, in out [count, 64]; whole blocks.
template <class L, class Format>
inline void convert(const PanelJob& job, int64_t first, int64_t count, float* out) {
  constexpr int64_t kBlockSteps = kPairsPerBlock * L::kStepsPerPair;
  const int64_t block = first / kBlockSteps;
  const uint8_t* at = job.data + block * Format::kBlockBytes;
  const uint8_t* scale = job.scale + block * 2;
  for (int64_t done = 0; done < count; done += kBlockSteps) {
    Format::block(
        at, scale, [&](int pair, int v, typename L::Pair w) __attribute__((always_inline)) {
          L::store_pair(out + pair * L::kStepsPerPair * kPanelRows + v * L::kLanes, kPanelRows, w);
        });
    out += kBlockSteps * kPanelRows;
    at += Format::kBlockBytes;
    scale += 2;
  }
}

/// The panel in pieces of kRunSteps steps; piece(first step, count, memory [64, 64]) -> where the
/// piece is.
template <class L, Order kOrder, class Piece>
inline void many_rows(const PanelJob& job, int64_t steps, const Piece& piece) {
  alignas(64) float memory[kRunSteps * kPanelRows];
  alignas(64) float sums[kBlockRows * kPanelRows];
  const int64_t lanes = (job.width + 15) / 16 * 16;
  for (int64_t first = 0; first < job.x.count; first += kBlockRows) {
    const int64_t rows = job.x.count - first < kBlockRows ? job.x.count - first : kBlockRows;
    __builtin_memset(sums, 0, static_cast<size_t>(rows * kPanelRows) * sizeof(float));
    for (int64_t step = 0; step < steps; step += kRunSteps) {
      const int64_t count = steps - step < kRunSteps ? steps - step : kRunSteps;
      TileArgs args;
      args.w = piece(step, count, memory);
      args.w_stride = kPanelRows;
      args.x = job.x.data + step / kRunSteps * job.x.all * kRunSteps;
      if (job.x.index != nullptr) {
        args.index = job.x.index + first;
      } else {
        args.x += first * kRunSteps;
      }
      args.x_row = kRunSteps;
      args.x_step = 1;
      args.steps = count;
      args.acc = sums;
      args.acc_row = kPanelRows;
      tiles<L, kOrder>(rows, lanes, args);
    }
    for (int64_t r = 0; r < rows; ++r) {
      __builtin_memcpy(job.y + (first + r) * job.y_stride, sums + r * kPanelRows,
                       static_cast<size_t>(job.width) * sizeof(float));
    }
  }
}

/// run.operator()<T>() for a number of rows that stays in registers; false for more.
template <class L, int T = 1, class Run>
[[gnu::always_inline]] inline bool with_few_rows(int64_t rows, const Run& run) {
  if constexpr (T <= L::kMaxFewRows) {
    if (rows != T) return with_few_rows<L, T + 1>(rows, run);
    run.template operator()<T>();
    return true;
  }
  return false;
}

template <class L, class Format>
void pair_product(const PanelJob& job) {
  if (with_few_rows<L>(job.x.count, [&]<int T>() { few_rows<L, Format, T>(job); })) return;
  const int64_t steps = job.cols / 2 * L::kStepsPerPair;
  many_rows<L, Order::kPairs>(job, steps, [&](int64_t first, int64_t count, float* memory) {
    convert<L, Format>(job, first, count, memory);
    return static_cast<const float*>(memory);
  });
}

/// Few rows with bf16 weights, in registers. An odd last column has a zero beside it in the panel
/// and in x.
template <class L, int T>
[[gnu::noinline]] void few_rows_bf16(const PanelJob& job) {
  typename L::Float acc[T][kVectors<L>];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVectors<L>; ++v) acc[t][v] = L::zero();
  }
  const float* x[T];
  for (int t = 0; t < T; ++t) x[t] = job.x.row(t);
  const uint8_t* at = job.data;
  for (int64_t k = 0; k < job.cols; k += 2, at += kPanelRows * 4) {
    const int64_t place = k / kRunSteps * job.x.all * kRunSteps + k % kRunSteps;
    for (int v = 0; v < kVectors<L>; ++v) {
      if (v * L::kLanes % 16 == 0) __builtin_prefetch(at + v * L::kLanes * 4 + kPrefetchBytes);
      const auto words = L::load_words(at + v * L::kLanes * 4);
      const auto first = L::low(words);
      const auto second = L::high(words);
      for (int t = 0; t < T; ++t) {
        acc[t][v] = L::add_product(first, L::broadcast(x[t] + place), acc[t][v]);
        acc[t][v] = L::add_product(second, L::broadcast(x[t] + place + 1), acc[t][v]);
      }
    }
  }
  store_rows<L, T>(acc, job);
}

template <class L>
void bf16_product(const PanelJob& job) {
  if (with_few_rows<L>(job.x.count, [&]<int T>() { few_rows_bf16<L, T>(job); })) return;
  many_rows<L, Order::kAscending>(job, job.cols, [&](int64_t first, int64_t count, float* memory) {
    const uint8_t* at = job.data + first / 2 * kPanelRows * 4;
    for (int64_t k = 0; k < count; k += 2, at += kPanelRows * 4) {
      for (int v = 0; v < kVectors<L>; ++v) {
        const auto words = L::load_words(at + v * L::kLanes * 4);
        float* out = memory + k * kPanelRows + v * L::kLanes;
        L::store(out, L::low(words));
        L::store(out + kPanelRows, L::high(words));
      }
    }
    return static_cast<const float*>(memory);
  });
}

template <class L>
void f32_product(const PanelJob& job) {
  many_rows<L, Order::kAscending>(
      job, job.cols, [&](int64_t first, int64_t /*count*/, float* /*memory*/) {
        return reinterpret_cast<const float*>(job.data) + first * kPanelRows;
      });
}

/// Pairs is a level's for FP8 and FP4, Plain its float32 one.
template <class Pairs, class Plain>
void panel_product(const PanelJob& job) {
  switch (job.format) {
    case WeightFormat::kFp4Panel:
      return pair_product<Pairs, Fp4Panel<Pairs>>(job);
    case WeightFormat::kFp8Panel:
      return pair_product<Pairs, Fp8Panel<Pairs>>(job);
    case WeightFormat::kBf16Panel:
      return bf16_product<Plain>(job);
    default:
      return f32_product<Plain>(job);
  }
}

/// A lane is a part; kTogether rows of the matrix side by side.
template <class L>
void parts_product(const PartsJob& job) {
  constexpr int kTogether = 4;
  constexpr int kVecs = static_cast<int>(kNumParts / L::kLanes);
  const int64_t run = job.cols / kNumParts;
  const auto* w = reinterpret_cast<const float*>(job.data);
  for (int64_t row = 0; row < job.rows; row += kTogether) {
    const float* rows[kTogether];
    for (int i = 0; i < kTogether; ++i)
      rows[i] = w + (row + i < job.rows ? row + i : job.rows - 1) * job.cols;
    for (int64_t r = 0; r < job.x_rows; ++r) {
      const float* x = job.x + r * job.cols;
      typename L::Float acc[kTogether][kVecs];
      for (auto& sums : acc) {
        for (auto& sum : sums) sum = L::zero();
      }
      for (int64_t k = 0; k < run; ++k) {
        for (int v = 0; v < kVecs; ++v) {
          const int64_t at = k * kNumParts + v * L::kLanes;
          const auto value = L::load(x + at);
          for (int i = 0; i < kTogether; ++i)
            acc[i][v] = L::add_product(L::load(rows[i] + at), value, acc[i][v]);
        }
      }
      for (int i = 0; i < kTogether && row + i < job.rows; ++i) {
        float parts[kNumParts];
        for (int v = 0; v < kVecs; ++v) L::store(parts + v * L::kLanes, acc[i][v]);
        float sum = parts[0];
        for (int part = 1; part < kNumParts; ++part) sum = sum + parts[part];
        job.y[r * job.y_stride + row + i] = sum;
      }
    }
  }
}

}  // namespace stoker::kernels
