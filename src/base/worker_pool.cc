#include "base/worker_pool.h"

#include <immintrin.h>

#include "base/check.h"

namespace stoker {
namespace {

constexpr unsigned kFlushBits = 0x8040;  // MXCSR: FTZ and DAZ

}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushBits);
}

FlushDenormals::~FlushDenormals() {
  _mm_setcsr(saved_);
}

WorkerPool::WorkerPool(int num_threads) {
  CHECK(num_threads >= 1, "a pool has at least its caller");
  for (int worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker] { serve(worker); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  threads_.clear();  // joins
}

void WorkerPool::run_erased(int64_t num_pieces, const void* context, Call call) {
  const FlushDenormals flush;
  if (threads_.empty() || num_pieces <= 1) {
    for (int64_t piece = 0; piece < num_pieces; ++piece) call(context, piece, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    context_ = context;
    call_ = call;
    num_pieces_ = num_pieces;
    next_piece_.store(0, std::memory_order_relaxed);
    num_busy_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  work_ready_.notify_all();
  claim_pieces(0);
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [this] { return num_busy_ == 0; });
}

void WorkerPool::claim_pieces(int worker) {
  while (true) {
    const int64_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= num_pieces_) return;
    call_(context_, piece, worker);
  }
}

void WorkerPool::serve(int worker) {
  const FlushDenormals flush;
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      work_ready_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    claim_pieces(worker);
    const std::lock_guard lock(mutex_);
    if (--num_busy_ == 0) work_done_.notify_one();
  }
}

}  // namespace stoker
