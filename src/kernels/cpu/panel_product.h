// Products of one panel of packed weights. Few rows of activations: weights are converted in
// registers, where they are used. More: a piece of the panel is converted into the first-level
// cache and used by tiles. Both are the same chains.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels.h"
#include "kernels/cpu/tile.h"
#include "tensor/panels.h"

namespace stoker::kernels {

// What is asked for ahead of what is read, by measurement: FP8, which has more bytes, gains a
// quarter by two steps with 2 rows and more, and FP4 loses by them with one.
inline constexpr int64_t kPrefetchBytes = 3072;
inline constexpr int64_t kFarBytes = 12288;
inline constexpr int64_t kNearBytes = 1024;
inline constexpr int64_t kBlockRows = 192;  // of activations, beside a piece

template <class L>
inline constexpr int kVectors = static_cast<int>(kPanelRows / L::kLanes);  // of a panel

template <class L>
struct Fp4Panel {
  static constexpr int64_t kBlockBytes = kFp4BlockBytes;

  /// use(pair, vector, L::Pair) for vectors kFirst .. kFirst + V - 1 of a block of 32 columns,
  /// counted from 0, pairs ascending in each. kRows: products that every pair goes into.
  template <int kRows, int kFirst, int V, class Use>
  [[gnu::always_inline]] static inline void block(const uint8_t* at, const uint8_t* /*scale*/,
                                                  const Use& use) {
    constexpr int kAtOnce = L::kFp4AtOnce < V ? L::kFp4AtOnce : V;
    typename L::Word scales[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) scales[v] = L::fp4_scales(at + (kFirst + v) * L::kLanes);
    if (kFirst == 0) __builtin_prefetch(at + kPrefetchBytes);
#pragma GCC unroll 8
    for (int step = 0; step < 4; ++step) {
#pragma GCC unroll 8
      for (int first = 0; first < V; first += kAtOnce) {
        typename L::Word pairs[kAtOnce][4];
#pragma GCC unroll 8
        for (int i = 0; i < kAtOnce; ++i) {
          const int64_t lane = (kFirst + first + i) * L::kLanes;
          const uint8_t* codes = at + kPanelRows + (step * kPanelRows + lane) * 4;
          if (lane % 16 == 0) __builtin_prefetch(codes + kPrefetchBytes);
          L::template fp4<kRows>(L::load_words(codes), scales[first + i], pairs[i]);
        }
#pragma GCC unroll 8
        for (int t = 0; t < 4; ++t) {
#pragma GCC unroll 8
          for (int i = 0; i < kAtOnce; ++i) use(step * 4 + t, first + i, L::of_words(pairs[i][t]));
        }
      }
    }
  }
};

template <class L>
struct Fp8Panel {
  static constexpr int64_t kBlockBytes = kFp8BlockBytes;

  template <int kRows, int kFirst, int V, class Use>
  [[gnu::always_inline]] static inline void block(const uint8_t* at, const uint8_t* scale,
                                                  const Use& use) {
    constexpr int kAtOnce = L::kFp8AtOnce < V ? L::kFp8AtOnce : V;
    const typename L::Fp8Scale scales[2] = {L::fp8_scale(scale[0]), L::fp8_scale(scale[1])};
#pragma GCC unroll 8
    for (int step = 0; step < 8; ++step) {
#pragma GCC unroll 8
      for (int first = 0; first < V; first += kAtOnce) {
        typename L::Pair pairs[kAtOnce][2];
#pragma GCC unroll 8
        for (int i = 0; i < kAtOnce; ++i) {
          const int64_t lane = (kFirst + first + i) * L::kLanes;
          const uint8_t* codes = at + (step * kPanelRows + lane) * 4;
          if (lane % 16 == 0) {
            __builtin_prefetch(codes + kFarBytes, 0, 2);  // into the second-level cache
            __builtin_prefetch(codes + kNearBytes);
          }
          L::template fp8_pairs<kRows>(L::load_words(codes), scales[2 * lane / kPanelRows],
                                       pairs[i]);
        }
#pragma GCC unroll 8
        for (int t = 0; t < 2; ++t) {
#pragma GCC unroll 8
          for (int i = 0; i < kAtOnce; ++i) use(step * 2 + t, first + i, pairs[i][t]);
        }
      }
    }
  }
};

inline constexpr int64_t kPairsPerBlock = kPanelBlock / 2;
template <class L>
inline constexpr int64_t kBlockSteps = kPairsPerBlock* L::kStepsPerPair;

/// A run of steps of T rows, which lie one after the other: those of x, or copies of them. Asks for
/// the next run, which is far away.
template <int T>
[[gnu::always_inline]] inline const float* run_of_rows(const ArrangedRows& x, int64_t run,
                                                       bool is_last, float* copies) {
  const float* first = x.data + run * x.all * kRunSteps;
  const float* next = first + (is_last ? 0 : x.all * kRunSteps);
  for (int t = 0; t < T; ++t) {
    const int64_t row = (x.index != nullptr ? x.index[t] : t) * kRunSteps;
    for (int64_t at = 0; at < kRunSteps; at += 16) __builtin_prefetch(next + row + at);
    if (x.index != nullptr)
      __builtin_memcpy(copies + t * kRunSteps, first + row, kRunSteps * sizeof(float));
  }
  return x.index != nullptr ? copies : first;
}

/// What a run of a panel of pairs adds to the sums of T rows, in vectors kFirst .. kFirst + V - 1.
template <class L, class Format, int T, int kFirst, int V>
[[gnu::always_inline]] inline void add_run(const PanelJob& job, int64_t run, const float* x,
                                           typename L::Float (&acc)[T][V]) {
  constexpr int64_t kBlocksPerRun = kRunSteps / kBlockSteps<L>;
  const int64_t first = run * kBlocksPerRun;
  const int64_t left = job.cols / kPanelBlock - first;
  const uint8_t* at = job.data + first * Format::kBlockBytes;
  const uint8_t* scale = job.scale + first * 2;
  for (int64_t block = 0; block < (left < kBlocksPerRun ? left : kBlocksPerRun); ++block) {
    Format::template block<T, kFirst, V>(
        at, scale, [&](int pair, int v, typename L::Pair w) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int t = 0; t < T; ++t)
            acc[t][v] = L::add_pair(w, x + t * kRunSteps + pair * L::kStepsPerPair, acc[t][v]);
        });
    at += Format::kBlockBytes;
    scale += 2;
    x += kBlockSteps<L>;
  }
}

/// Where the sums of a group of rows go: into y, or where the panel has dead rows into `spare`,
/// from which store() copies the live ones.
template <int T>
struct GroupSums {
  explicit GroupSums(const PanelJob& of) : job(of) {}
  float* row(int t) { return job.width == kPanelRows ? job.y + t * job.y_stride : spare[t]; }
  void store() {
    for (int t = 0; t < T && job.width < kPanelRows; ++t) {
      __builtin_memcpy(job.y + t * job.y_stride, spare[t],
                       static_cast<size_t>(job.width) * sizeof(float));
    }
  }

  const PanelJob& job;
  alignas(64) float spare[T][kPanelRows];
};

/// add_run() for all vectors, V at a time, with sums in memory; the first run begins them.
template <class L, class Format, int T, int V, int kFirst = 0>
[[gnu::always_inline]] inline void add_run_by_parts(const PanelJob& job, int64_t run,
                                                    const float* x, GroupSums<T>& sums) {
  if constexpr (kFirst < kVectors<L>) {
    typename L::Float acc[T][V];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        acc[t][v] = run == 0 ? L::zero() : L::load(sums.row(t) + (kFirst + v) * L::kLanes);
    }
    add_run<L, Format, T, kFirst, V>(job, run, x, acc);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) L::store(sums.row(t) + (kFirst + v) * L::kLanes, acc[t][v]);
    }
    add_run_by_parts<L, Format, T, V, kFirst + V>(job, run, x, sums);
  }
}

/// Vectors whose sums stay in registers for T rows while weights are converted.
template <class L, int T>
constexpr int few_rows_vectors() {
  int vectors = kVectors<L>;
  while (vectors * T > L::kMaxSums) vectors /= 2;
  return vectors;
}

template <class L, class Format, int T>
[[gnu::noinline]] void few_rows(const PanelJob& job) {
  constexpr int kTogether = few_rows_vectors<L, T>();
  GroupSums<T> sums(job);
  alignas(64) float copies[T * kRunSteps];
  const int64_t runs = (job.cols / 2 * L::kStepsPerPair + kRunSteps - 1) / kRunSteps;
  const auto x_of = [&](int64_t run) __attribute__((always_inline)) {
    return run_of_rows<T>(job.x, run, run + 1 == runs, copies);
  };
  if constexpr (kTogether == kVectors<L>) {
    typename L::Float acc[T][kTogether];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
      for (int v = 0; v < kTogether; ++v) acc[t][v] = L::zero();
    }
    for (int64_t run = 0; run < runs; ++run)
      add_run<L, Format, T, 0, kTogether>(job, run, x_of(run), acc);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
      for (int v = 0; v < kTogether; ++v) L::store(sums.row(t) + v * L::kLanes, acc[t][v]);
    }
  } else {
    for (int64_t run = 0; run < runs; ++run)
      add_run_by_parts<L, Format, T, kTogether>(job, run, x_of(run), sums);
  }
  sums.store();
}

/// Steps [first, first + count) of a panel of pairs, in out [count, 64]; whole blocks.
template <class L, class Format>
inline void convert(const PanelJob& job, int64_t first, int64_t count, float* out) {
  const int64_t block = first / kBlockSteps<L>;
  const uint8_t* at = job.data + block * Format::kBlockBytes;
  const uint8_t* scale = job.scale + block * 2;
  for (int64_t done = 0; done < count; done += kBlockSteps<L>) {
    Format::template block<0, 0, kVectors<L>>(
        at, scale, [&](int pair, int v, typename L::Pair w) __attribute__((always_inline)) {
          L::store_pair(out + pair * L::kStepsPerPair * kPanelRows + v * L::kLanes, kPanelRows, w);
        });
    out += kBlockSteps<L> * kPanelRows;
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

/// run.operator()<T>(job) for the number T of the job's rows, at most kMax.
template <int kMax, int T = 1, class Run>
[[gnu::always_inline]] inline void with_rows(const PanelJob& job, const Run& run) {
  if constexpr (T < kMax) {
    if (job.x.count != T) return with_rows<kMax, T + 1>(job, run);
  }
  run.template operator()<T>(job);
}

/// with_rows() for groups of nearly the same size: from the second on, the panel comes from the
/// second-level cache.
template <int kMax, class Run>
inline void in_groups(PanelJob job, const Run& run) {
  int64_t left = job.x.count;
  for (int64_t groups = (left + kMax - 1) / kMax; groups > 0; --groups) {
    job.x.count = (left + groups - 1) / groups;
    with_rows<kMax>(job, run);
    if (job.x.index != nullptr) {
      job.x.index += job.x.count;
    } else {
      job.x.data += job.x.count * kRunSteps;
    }
    job.y += job.x.count * job.y_stride;
    left -= job.x.count;
  }
}

template <class L, class Format>
void pair_product(const PanelJob& job) {
  if (job.x.count <= L::kMaxGroupedRows) {
    return in_groups<L::kMaxFewRows>(
        job, []<int T>(const PanelJob& some) { few_rows<L, Format, T>(some); });
  }
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
  GroupSums<T> sums(job);
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVectors<L>; ++v) L::store(sums.row(t) + v * L::kLanes, acc[t][v]);
  }
  sums.store();
}

template <class L>
void bf16_product(const PanelJob& job) {
  constexpr int kMaxRows = L::kMaxSums / kVectors<L>;
  constexpr int kMaxGroups = kMaxRows;  // more come from tiles in less time
  if (job.x.count <= kMaxRows * kMaxGroups) {
    return in_groups<kMaxRows>(job, []<int T>(const PanelJob& some) { few_rows_bf16<L, T>(some); });
  }
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
      float parts[kTogether][kNumParts];
      for (int i = 0; i < kTogether; ++i) {
        for (int v = 0; v < kVecs; ++v) L::store(parts[i] + v * L::kLanes, acc[i][v]);
      }
      float sum[kTogether];  // side by side: each waits for its own additions alone
      for (int i = 0; i < kTogether; ++i) sum[i] = parts[i][0];
      for (int part = 1; part < kNumParts; ++part) {
        for (int i = 0; i < kTogether; ++i) sum[i] = sum[i] + parts[i][part];
      }
      for (int i = 0; i < kTogether && row + i < job.rows; ++i)
        job.y[r * job.y_stride + row + i] = sum[i];
    }
  }
}

}  // namespace stoker::kernels
