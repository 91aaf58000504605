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
  float* acc = nullptr;  ///< [rows, lanes], acc_row apart
  int64_t acc_row = 0;
  bool fresh = false;  ///< sums start from zero, not from acc
};

/// T rows and V vectors of lanes.
template <class L, Order kOrder, int T, int V>
[[gnu::noinline]] void tile(const TileArgs& args) {
  using Float = typename L::Float;
  Float acc[T][V];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < V; ++v) {
      acc[t][v] = args.fresh ? L::zero() : L::load(args.acc + t * args.acc_row + v * L::kLanes);
    }
  }
  const float* x[T];
  for (int t = 0; t < T; ++t)
    x[t] = args.x + (args.index != nullptr ? args.index[t] : t) * args.x_row;
  const auto step = [&](const float* w, int64_t at) __attribute__((always_inline)) {
    Float lanes[V];
    for (int v = 0; v < V; ++v) lanes[v] = L::load(w + v * L::kLanes);
    for (int t = 0; t < T; ++t) {
      const Float value = L::broadcast(x[t] + at);
      for (int v = 0; v < V; ++v) acc[t][v] = L::mac(lanes[v], value, acc[t][v]);
    }
  };
  const float* w = args.w;
  int64_t s = 0;
  if constexpr (kOrder == Order::kPairs && L::kStepsPerPair == 2) {
    for (; s + 1 < args.steps; s += 2, w += 2 * args.w_stride) {
      step(w + args.w_stride, (s + 1) * args.x_step);
      step(w, s * args.x_step);
    }
  }
  for (; s < args.steps; ++s, w += args.w_stride) step(w, s * args.x_step);
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < V; ++v) L::store(args.acc + t * args.acc_row + v * L::kLanes, acc[t][v]);
  }
}

inline constexpr int64_t kMaxTileRows = 6;

template <class L, Order kOrder, int V>
inline void tile_of(int64_t rows, const TileArgs& args) {
  switch (rows) {
    case 1:
      return tile<L, kOrder, 1, V>(args);
    case 2:
      return tile<L, kOrder, 2, V>(args);
    case 3:
      return tile<L, kOrder, 3, V>(args);
    case 4:
      return tile<L, kOrder, 4, V>(args);
    case 5:
      return tile<L, kOrder, 5, V>(args);
    default:
      return tile<L, kOrder, 6, V>(args);
  }
}

/// `rows` rows in tiles of nearly the same size; V vectors of lanes.
template <class L, Order kOrder, int V>
inline void tiles_of(int64_t rows, TileArgs args) {
  for (int64_t left = (rows + kMaxTileRows - 1) / kMaxTileRows; rows > 0; --left) {
    const int64_t count = (rows + left - 1) / left;
    tile_of<L, kOrder, V>(count, args);
    if (args.index != nullptr) {
      args.index += count;
    } else {
      args.x += count * args.x_row;
    }
    args.acc += count * args.acc_row;
    rows -= count;
  }
}

/// All of `rows` rows and `lanes` lanes, a multiple of 16.
template <class L, Order kOrder>
inline void tiles(int64_t rows, int64_t lanes, TileArgs args) {
  const auto next = [&](int64_t width) {
    args.w += width;
    args.acc += width;
    lanes -= width;
  };
  if constexpr (L::kLanes == 16) {  // 24 sums, 4 weights, a value: 29 of 32 registers
    for (; lanes >= 64; next(64)) tiles_of<L, kOrder, 4>(rows, args);
    for (; lanes >= 32; next(32)) tiles_of<L, kOrder, 2>(rows, args);
    for (; lanes >= 16; next(16)) tiles_of<L, kOrder, 1>(rows, args);
  } else {  // 12 sums, 2 weights, a value: 15 of 16
    for (; lanes >= 16; next(16)) tiles_of<L, kOrder, 2>(rows, args);
  }
}

}  // namespace stoker::kernels
