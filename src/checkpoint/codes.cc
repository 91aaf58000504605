#include "checkpoint/codes.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "base/bytes.h"
#include "base/worker_pool.h"

namespace stoker {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// 2^(b - 127) times the largest code must be finite in float32: 448 = 1.75 * 2^8, 6 = 1.5 * 2^2.
// And b = 0 is no normal float32.
constexpr int kMaxE4m3Scale = 127 + 127 - 8;
constexpr int kMaxE2m1Scale = 127 + 127 - 2;

struct E4m3IsNan {
  bool operator()(uint8_t code) const { return (code & 0x7F) == 0x7F; }
};

template <int kMax>
struct ScaleIsOut {
  bool operator()(uint8_t code) const { return static_cast<uint8_t>(code - 1) >= kMax; }
};

struct Bf16IsNotFinite {
  bool operator()(uint16_t bits) const { return (bits & 0x7F80) == 0x7F80; }
};

struct F32IsNotFinite {
  bool operator()(uint32_t bits) const { return (bits & 0x7F800000) == 0x7F800000; }
};

// The index of the first bad one of `count` elements, or -1. The first loop has no exit, so that it
// is vectorised.
template <class T, class IsBad>
int64_t first_bad(const uint8_t* data, int64_t count, const IsBad& is_bad) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  T any = 0;
  for (int64_t i = 0; i < count; ++i) any |= static_cast<T>(is_bad(load_le<T>(data + i * kSize)));
  if (any == 0) return -1;
  int64_t i = 0;
  while (!is_bad(load_le<T>(data + i * kSize))) ++i;
  return i;
}

int64_t first_bad(CodeKind kind, const uint8_t* data, int64_t num_bytes) {
  switch (kind) {
    case CodeKind::kE4m3:
      return first_bad<uint8_t>(data, num_bytes, E4m3IsNan());
    case CodeKind::kE4m3Scale:
      return first_bad<uint8_t>(data, num_bytes, ScaleIsOut<kMaxE4m3Scale>());
    case CodeKind::kE2m1Scale:
      return first_bad<uint8_t>(data, num_bytes, ScaleIsOut<kMaxE2m1Scale>());
    case CodeKind::kBf16:
      return first_bad<uint16_t>(data, num_bytes / 2, Bf16IsNotFinite());
    case CodeKind::kF32:
      return first_bad<uint32_t>(data, num_bytes / 4, F32IsNotFinite());
  }
  return -1;
}

// A run of one array's bytes.
struct Piece {
  size_t array;
  int64_t begin;
  int64_t size;
};

std::vector<Piece> cut(const std::vector<CodeArray>& arrays) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int64_t total = arrays[i].view->size_bytes;
    for (int64_t begin = 0; begin < total; begin += kPieceBytes) {
      pieces.push_back({i, begin, std::min(kPieceBytes, total - begin)});
    }
  }
  return pieces;
}

int64_t first_bad(const std::vector<CodeArray>& arrays, const Piece& piece) {
  const CodeArray& array = arrays[piece.array];
  return first_bad(array.kind, array.view->data + piece.begin, piece.size);
}

std::string expected_text(CodeKind kind) {
  switch (kind) {
    case CodeKind::kE4m3:
      return "an e4m3 code that is no NaN";
    case CodeKind::kE4m3Scale:
      return "a ue8m0 scale from 1 to " + std::to_string(kMaxE4m3Scale);
    case CodeKind::kE2m1Scale:
      return "a ue8m0 scale from 1 to " + std::to_string(kMaxE2m1Scale);
    case CodeKind::kBf16:
    case CodeKind::kF32:
      return "a finite number";
  }
  return "";
}

std::string found_text(CodeKind kind, const uint8_t* at) {
  char text[16];
  switch (kind) {
    case CodeKind::kE4m3:
      std::snprintf(text, sizeof text, "0x%02X", *at);
      break;
    case CodeKind::kE4m3Scale:
    case CodeKind::kE2m1Scale:
      std::snprintf(text, sizeof text, "%d", *at);
      break;
    case CodeKind::kBf16:
      std::snprintf(text, sizeof text, "0x%04X", load_le<uint16_t>(at));
      break;
    case CodeKind::kF32:
      std::snprintf(text, sizeof text, "0x%08X", load_le<uint32_t>(at));
      break;
  }
  return text;
}

Error describe(const std::vector<CodeArray>& arrays, const Piece& piece) {
  const CodeArray& array = arrays[piece.array];
  const int size = dtype_info(array.view->dtype).size_bytes;
  const int64_t element = piece.begin / size + first_bad(arrays, piece);
  const Shape& shape = array.view->shape;
  const int64_t cols = shape.empty() ? 1 : shape.back();
  return {ErrorCode::kCorruptData,
          *array.name + ": row " + std::to_string(element / cols) + ", column " +
              std::to_string(element % cols) + ": expected " + expected_text(array.kind) +
              ", found " + found_text(array.kind, array.view->data + element * size) + " (" +
              *array.file + ")",
          ""};
}

void lower(std::atomic<int64_t>& value, int64_t to) {
  int64_t seen = value.load();
  while (to < seen && !value.compare_exchange_weak(seen, to)) {
  }
}

}  // namespace

Result<void> check_codes(const std::vector<CodeArray>& arrays, int num_threads,
                         const std::function<void(double fraction)>& progress) {
  const std::vector<Piece> pieces = cut(arrays);
  int64_t total = 0;
  for (const Piece& piece : pieces) total += piece.size;
  const auto num_pieces = static_cast<int64_t>(pieces.size());
  std::atomic<int64_t> done{0};
  std::atomic<int64_t> first_bad_piece{num_pieces};
  WorkerPool pool(num_threads);
  pool.run(num_pieces, [&](int64_t index, int worker) {
    if (index >= first_bad_piece.load(std::memory_order_relaxed)) return;
    const Piece& piece = pieces[static_cast<size_t>(index)];
    if (first_bad(arrays, piece) >= 0) lower(first_bad_piece, index);
    const int64_t now = done.fetch_add(piece.size, std::memory_order_relaxed) + piece.size;
    if (worker == 0 && progress) progress(static_cast<double>(now) / static_cast<double>(total));
  });
  const int64_t bad = first_bad_piece.load();
  if (bad < num_pieces) return describe(arrays, pieces[static_cast<size_t>(bad)]);
  if (progress) progress(1);
  return {};
}

}  // namespace stoker
