// The threads that kernels run on. Work is cut into numbered pieces whose size never depends on how
// many workers there are; workers claim pieces from a counter, so no result depends on the number
// of threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/placement.h"

namespace stoker {

/// A fixed set of threads that flush denormals (docs/numerics.md). run() is called by one thread at
/// a time, which works along as worker 0. Threads without work look for it for a millisecond, then
/// sleep.
class WorkerPool {
 public:
  /// num_threads >= 1, the caller of run() included: num_threads - 1 threads are started. Where
  /// they are as many as the cores that this process may use, and these are of more than one NUMA
  /// node, each thread but the caller stays on a core, and spreads what it touches over the nodes.
  explicit WorkerPool(int num_threads);
  WorkerPool(int num_threads, const CoreMap& map);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls work(piece, worker) once for each piece in [0, num_pieces), worker in [0, num_threads),
  /// and returns when all are done. Pieces must not depend on each other and must not throw. The
  /// caller has its denormals flushed meanwhile.
  template <class Work>
  void run(int64_t num_pieces, const Work& work) {
    run_erased(num_pieces, &work, [](const void* context, int64_t piece, int worker) {
      (*static_cast<const Work*>(context))(piece, worker);
    });
  }

 private:
  using Call = void (*)(const void* context, int64_t piece, int worker);

  void run_erased(int64_t num_pieces, const void* context, Call call);
  void serve(int worker);
  bool wait_for_work(uint64_t seen);
  void claim_pieces(int worker);

  // For those that sleep. What is waited for changes under the mutex or is looked at under it.
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  std::chrono::microseconds spin_time_{0};  // before sleeping
  int num_sleeping_ = 0;                    // workers; under the mutex
  bool stopping_ = false;                   // under the mutex
  std::atomic<uint64_t> generation_{0};     // of run(); a new one is work
  std::atomic<int> num_busy_{0};            // workers that have not finished with it

  // Of the current run; written by run() before it makes a new generation.
  const void* context_ = nullptr;
  Call call_ = nullptr;
  int64_t num_pieces_ = 0;
  std::atomic<int64_t> next_piece_{0};

  std::vector<std::jthread> threads_;
};

/// While it lives, the calling thread treats denormals as zero and rounds to zero what would be one
/// (MXCSR DAZ and FTZ).
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

/// While it lives, the calling thread computes with denormals as IEEE has it, whatever it did
/// before.
class KeepDenormals {
 public:
  KeepDenormals();
  ~KeepDenormals();
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace stoker
