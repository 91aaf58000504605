// The weights of a model in the form that the kernels read: every matrix that rows are multiplied
// with as panels (tensor/panels.h), one after the other in one piece of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/worker_pool.h"
#include "checkpoint/weights.h"

namespace stoker {

/// Where packed matrices lie, from the weights that they are made from. What cannot be packed stays
/// where it is.
class PackedLayout {
 public:
  /// Borrows what `from` borrows. Reads the scales of FP8 and FP4 matrices.
  explicit PackedLayout(const ModelWeights& from);

  int64_t bytes() const { return bytes_; }

  /// Writes all of it to `memory` [bytes()], which is zero. progress(bytes done, of bytes) is
  /// called from the calling thread; may be null.
  void pack(WorkerPool& pool, uint8_t* memory,
            const std::function<void(int64_t done, int64_t total)>& progress) const;

  /// The weights, with those that are packed in `memory`, which they borrow.
  ModelWeights weights_in(const uint8_t* memory) const;

 private:
  struct Matrix {
    Weight from;
    Weight to;         // without memory
    int64_t data = 0;  // offsets
    int64_t scale = 0;
  };

  ModelWeights from_;
  std::vector<Matrix> matrices_;  // in the order of for_each_matrix
  int64_t bytes_ = 0;
};

/// Calls visit(matrix, whether product_parts reads it) for every matrix that rows are multiplied
/// with, absent ones too, in a fixed order.
void for_each_matrix(ModelWeights& weights, const std::function<void(Weight&, bool parts)>& visit);

/// Packed weights in memory of their own. Movable; what weights() says moves along.
class PackedWeights {
 public:
  static PackedWeights make(const ModelWeights& from, WorkerPool& pool,
                            const std::function<void(int64_t done, int64_t total)>& progress = {});

  const ModelWeights& weights() const { return *weights_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t, Free> memory_;
  std::unique_ptr<const ModelWeights> weights_;
  int64_t bytes_ = 0;
};

}  // namespace stoker
