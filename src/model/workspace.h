// What forward passes compute with: threads, kernels, and memory that is there from the start.
#pragma once

#include <cstdint>

#include "base/arena.h"
#include "base/worker_pool.h"
#include "checkpoint/config.h"
#include "kernels/plan.h"
#include "kernels/products.h"

namespace stoker {

/// For one forward pass at a time. Borrows the pool.
class Workspace {
 public:
  /// Memory for steps of up to max_rows rows. Larger steps are allocated when they come.
  Workspace(const ModelConfig& config, WorkerPool& pool, const kernels::KernelPlan& plan,
            int64_t max_rows)
      : pool_(pool),
        plan_(plan),
        max_rows_(max_rows),
        arena_(bytes_for(config, pool.num_threads(), max_rows), pool) {}

  /// Bytes that a step of that many rows takes at most, where its sequences are not long; scores of
  /// index keys come on top.
  static int64_t bytes_for(const ModelConfig& config, int num_threads, int64_t max_rows);
  /// Sequences whose drafts are chosen together, with all their logits in memory.
  static constexpr int64_t kChainsTogether = 16;

  WorkerPool& pool() { return pool_; }
  Arena& arena() { return arena_; }
  int64_t max_rows() const { return max_rows_; }
  const kernels::KernelPlan& plan() const { return plan_; }
  kernels::Workbench bench() { return {pool_, arena_, plan_}; }

 private:
  WorkerPool& pool_;
  const kernels::KernelPlan plan_;
  const int64_t max_rows_;
  Arena arena_;
};

}  // namespace stoker
