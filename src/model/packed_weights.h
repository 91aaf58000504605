// The weights of a model in the form that the kernels read: every matrix that rows are multiplied
// with as panels (tensor/panels.h), one after the other in one piece of memory or of a file, behind
// a header that says where each one lies (docs/formats.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/worker_pool.h"
#include "checkpoint/weights.h"
#include "stoker/result.h"

namespace stoker {

/// Of the bytes that PackedLayout writes; a change of them or of a packed format is a new one.
inline constexpr int64_t kPackedVersion = 1;

/// Told bytes that are packed, of bytes; from the calling thread. May be null.
using PackProgress = std::function<void(int64_t done, int64_t total)>;

/// Takes bytes at an offset; what it is never given is zero. Called from several threads at once,
/// with parts that do not overlap. Must not throw.
using PackSink = std::function<Result<void>(int64_t offset, Bytes part)>;

/// Where packed matrices lie, from the weights that they are made from. What cannot be packed stays
/// where it is. Copies borrow what `from` borrows.
class PackedLayout {
 public:
  /// Reads the scales of FP8 and FP4 matrices.
  static PackedLayout of(const ModelWeights& from, WorkerPool& pool);

  /// The layout of bytes that pack() wrote for the same weights; reads their header alone. Only
  /// which matrices are packed is taken from it: all else must be as these weights have it. Error:
  /// kCorruptData with what differs.
  static Result<PackedLayout> read(Bytes packed, const ModelWeights& from);

  /// Of header and matrices, a multiple of 2 MiB.
  int64_t bytes() const { return bytes_; }
  /// Of the header alone, which begins the bytes.
  static int64_t header_bytes(const ModelWeights& from);

  /// Hands all of it to `sink`, piece by piece. Errors: the sink's first one; the rest is then left
  /// out.
  Result<void> pack(WorkerPool& pool, const PackSink& sink, const PackProgress& progress) const;

  /// The weights, with those that are packed in `packed` [bytes()], which they borrow.
  ModelWeights weights_in(const uint8_t* packed) const;

 private:
  struct Matrix {
    int64_t number = 0;  // in the order of for_each_matrix
    Weight from;
    Weight to;         // without memory
    int64_t data = 0;  // offsets
    int64_t scale = 0;
  };

  /// packs: for each matrix in the order of for_each_matrix, whether it is packed.
  PackedLayout(const ModelWeights& from, const std::vector<uint8_t>& packs);
  std::string header() const;

  ModelWeights from_;
  int64_t num_matrices_ = 0;      // of for_each_matrix, packed or not
  std::vector<Matrix> matrices_;  // those that are packed
  int64_t bytes_ = 0;
};

/// Calls visit(matrix, whether product_parts reads it) for every matrix that rows are multiplied
/// with, absent ones too, in a fixed order.
void for_each_matrix(ModelWeights& weights, const std::function<void(Weight&, bool parts)>& visit);

/// Packed weights in memory of their own. Movable; what weights() says moves along.
class PackedWeights {
 public:
  static PackedWeights make(const ModelWeights& from, WorkerPool& pool,
                            const PackProgress& progress = {});

  const ModelWeights& weights() const { return *weights_; }

 private:
  PackedWeights(int64_t bytes, WorkerPool& pool) : memory_(bytes, pool) {}

  Arena memory_;
  std::unique_ptr<const ModelWeights> weights_;
};

}  // namespace stoker
