#include "base/worker_pool.h"

#include <immintrin.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"

namespace stoker {
namespace {

constexpr unsigned kFlushBits = 0x8040;  // MXCSR: FTZ and DAZ

// The first number in a file of /sys or /proc, or `otherwise`.
int64_t number_in(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// Cores that the control group's CPU quota allows (version 2, then 1); a large number without one.
double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0)
    return std::strtod(quota.c_str(), nullptr) / period;
  const int64_t old_quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
  const int64_t old_period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
  if (old_quota > 0 && old_period > 0)
    return static_cast<double>(old_quota) / static_cast<double>(old_period);
  return 1e9;
}

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

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  std::set<std::pair<int64_t, int64_t>>
      cores;  // (package, core) pairs: hyper-threads of a core are one
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(number_in(topology + "physical_package_id", 0),
                  number_in(topology + "core_id", cpu));
  }
  const double quota = std::max(1.0, std::floor(quota_cores()));
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cores.size()), quota)));
}

int64_t usable_memory_bytes() {
  const int64_t machine =
      static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  int64_t limit = number_in("/sys/fs/cgroup/memory.max", machine);  // "max" is no number
  limit = std::min(limit, number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", machine));
  return std::min(machine, limit);
}

}  // namespace stoker
