#include "base/worker_pool.h"

#include <immintrin.h>

#include "base/check.h"
#include "base/machine.h"
#include "base/thread_name.h"

namespace stoker {
namespace {

constexpr unsigned kFlushBits = 0x8040;  // MXCSR: FTZ and DAZ

// Longer than most of what one thread does alone in a step, and little beside a step.
constexpr std::chrono::microseconds kSpinTime{1000};

// Looks for as long as `limit`; now and then lets others have the core.
template <class Done>
bool spin_until(std::chrono::microseconds limit, const Done& is_done) {
  if (is_done() || limit.count() == 0) return is_done();
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 64; ++i) {
      if (is_done()) return true;
      _mm_pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return is_done();
}

}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushBits);
}

FlushDenormals::~FlushDenormals() {
  _mm_setcsr(saved_);
}

KeepDenormals::KeepDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ & ~kFlushBits);
}

KeepDenormals::~KeepDenormals() {
  _mm_setcsr(saved_);
}

WorkerPool::WorkerPool(int num_threads) : WorkerPool(num_threads, core_map(allowed_processors())) {}

WorkerPool::WorkerPool(int num_threads, const CoreMap& map) {
  CHECK(num_threads >= 1, "a pool has at least its caller");
  // Where threads outnumber cores, one that spins keeps another from working.
  if (num_threads <= usable_cores(map)) spin_time_ = kSpinTime;
  // With fewer threads than cores, another pool or process may keep its threads on the same ones.
  const bool is_placed = map.nodes.size() > 1 && num_threads == usable_cores(map) &&
                         map.cores.size() == static_cast<size_t>(num_threads);
  for (int worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker, is_placed, map] {
      // Only advice: refused, all is slower and the same.
      if (is_placed)
        static_cast<void>(place_thread(map.cores[static_cast<size_t>(worker)], map.nodes));
      name_this_thread("pool");
      serve(worker);
    });
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
  context_ = context;
  call_ = call;
  num_pieces_ = num_pieces;
  next_piece_.store(0, std::memory_order_relaxed);
  num_busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  bool must_wake = false;
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
    must_wake = num_sleeping_ > 0;
  }
  if (must_wake) work_ready_.notify_all();
  claim_pieces(0);
  const auto is_done = [this] { return num_busy_.load(std::memory_order_acquire) == 0; };
  if (spin_until(spin_time_, is_done)) return;
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, is_done);
}

void WorkerPool::claim_pieces(int worker) {
  while (true) {
    const int64_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= num_pieces_) return;
    call_(context_, piece, worker);
  }
}

bool WorkerPool::wait_for_work(uint64_t seen) {
  const auto is_new = [this, seen] { return generation_.load(std::memory_order_acquire) != seen; };
  if (spin_until(spin_time_, is_new)) return true;
  std::unique_lock lock(mutex_);
  ++num_sleeping_;
  work_ready_.wait(lock, [&] { return stopping_ || is_new(); });
  --num_sleeping_;
  return !stopping_;
}

void WorkerPool::serve(int worker) {
  const FlushDenormals flush;
  for (uint64_t seen = 0; wait_for_work(seen); ++seen) {
    claim_pieces(worker);
    if (num_busy_.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    { const std::lock_guard lock(mutex_); }  // the caller has looked, or sleeps and will be woken
    work_done_.notify_one();
  }
}

}  // namespace stoker
