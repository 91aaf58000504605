// The inner loop of everything large: sums of several rows of activations with columns of lanes,
// each sum its own chain over steps.
//
// A step is 4 bytes of an activation and 4 bytes of each lane. For levels that multiply float32 it
// is one column; steps 2 p and 2 p + 1 are the first and the second column of pair p, and the
// second goes first. For levels that multiply pairs of bf16 it is one pair.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// In which order the steps of a chain are taken.
enum class Order { kPairs, kAscending };

/// Operands of a tile. Strides count floats.
struct TileArgs {
  const float* w = nullptr;  ///< [steps, lanes], w_stride apart
  int64_t w_stride = 0;
  const float* x = nullptr;  ///< step s of row r is at x[r * x_row + s * x_step],
  const int32_t* index =
      nullptr;  ///< or of x[index[r] * x_row + s * x_step] where this is not null
  int64_t x_row = 0;
  int64_t x_step = 0;
  int64_t steps = 0;
  float* acc = nullptr;  ///< [rows, lanes], acc_row apart; what is there is added to
  int64_t acc_row = 0;
};

/// T rows and V vectors of lanes. kUnit: x_step is 1.
template <class L, Order kOrder, int T, int V, bool kUnit>
[[gnu::noinline]] void tile(const TileArgs& args) {
  using Float = typename L::Float;
  Float acc[T][V];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[t][v] = L::load(args.acc + t * args.acc_row + v * L::kLanes);
  }
  const float* x[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    x[t] = args.x + (args.index != nullptr ? args.index[t] : t) * args.x_row;
  const auto step = [&](const float* w, int64_t at) __attribute__((always_inline)) {
    Float lanes[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) lanes[v] = L::load(w + v * L::kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const Float value = L::broadcast(x[t] + at);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[t][v] = L::mac(lanes[v], value, acc[t][v]);
    }
  };
  const float* w = args.w;
  const int64_t x_step = kUnit ? 1 : args.x_step;
  int64_t s = 0;
  if constexpr (kOrder == Order::kPairs && L::kStepsPerPair == 2) {
    for (; s + 1 < args.steps; s += 2, w += 2 * args.w_stride) {
      step(w + args.w_stride, (s + 1) * x_step);
      step(w, s * x_step);
    }
  }
  for (; s < args.steps; ++s, w += args.w_stride) step(w, s * x_step);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) L::store(args.acc + t * args.acc_row + v * L::kLanes, acc[t][v]);
  }
}

inline constexpr int64_t kMaxTileRows = 6;

template <class L, Order kOrder, int V, bool kUnit>
inline void tile_of(int64_t rows, const TileArgs& args) {
  switch (rows) {
    case 1:
      return tile<L, kOrder, 1, V, kUnit>(args);
    case 2:
      return tile<L, kOrder, 2, V, kUnit>(args);
    case 3:
      return tile<L, kOrder, 3, V, kUnit>(args);
    case 4:
      return tile<L, kOrder, 4, V, kUnit>(args);
    case 5:
      return tile<L, kOrder, 5, V, kUnit>(args);
    default:
      return tile<L, kOrder, 6, V, kUnit>(args);
  }
}

/// `rows` rows in tiles of nearly the same size; V vectors of lanes.
template <class L, Order kOrder, int V>
inline void tiles_of(int64_t rows, TileArgs args) {
  for (int64_t left = (rows + kMaxTileRows - 1) / kMaxTileRows; rows > 0; --left) {
    const int64_t count = (rows + left - 1) / left;
    if (args.x_step == 1) {
      tile_of<L, kOrder, V, true>(count, args);
    } else {
      tile_of<L, kOrder, V, false>(count, args);
    }
    if (args.index != nullptr) {
      args.index += count;
    } else {
      args.x += count * args.x_row;
    }
    args.acc += count * args.acc_row;
    rows -= count;
  }
}

/// Vectors of lanes of a tile: with 32 registers 24 sums, 4 weights and a value, with 16 12 sums, 2
/// weights and a value.
template <class L>
inline constexpr int kMaxTileVectors = L::kLanes == 16 ? 4 : 2;

/// Lanes in tiles of V vectors, then what is left in smaller ones.
template <class L, Order kOrder, int V>
inline void lanes_of(int64_t rows, int64_t lanes, TileArgs args) {
  constexpr int64_t kWidth = V * L::kLanes;
  while (lanes >= kWidth) {
    tiles_of<L, kOrder, V>(rows, args);
    args.w += kWidth;
    args.acc += kWidth;
    lanes -= kWidth;
  }
  if constexpr (kWidth > 16) lanes_of<L, kOrder, V / 2>(rows, lanes, args);
}

/// All of `rows` rows and `lanes` lanes, a multiple of 16.
template <class L, Order kOrder>
inline void tiles(int64_t rows, int64_t lanes, const TileArgs& args) {
  lanes_of<L, kOrder, kMaxTileVectors<L>>(rows, lanes, args);
}

}  // namespace stoker::kernels
