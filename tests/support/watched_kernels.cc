#include "support/watched_kernels.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

namespace stoker::testing {
namespace {

using kernels::Isa;
using kernels::Kernels;

std::mutex mutex;
Reads reads;  // under the mutex
std::atomic<bool> is_watching{false};
std::atomic<int64_t> index_ns{0};

void note(const uint8_t* data) {
  if (!is_watching) return;
  const std::lock_guard lock(mutex);
  ++reads[data];
}

template <Isa kIsa>
const Kernels& watched() {
  static const Kernels kWatched = [] {
    Kernels kernels = kernels::kernels_of(kIsa);
    kernels.panel = [](const kernels::PanelJob& job) {
      note(job.data);
      kernels::kernels_of(kIsa).panel(job);
    };
    kernels.parts = [](const kernels::PartsJob& job) {
      note(job.data);
      kernels::kernels_of(kIsa).parts(job);
    };
    kernels.index_scores = [](const kernels::IndexJob& job) {
      const auto begin = std::chrono::steady_clock::now();
      kernels::kernels_of(kIsa).index_scores(job);
      index_ns += (std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1);
    };
    return kernels;
  }();
  return kWatched;
}

const Kernels* watched_twin(const Kernels* kernels) {
  switch (kernels->isa) {
    case Isa::kAvx2:
      return &watched<Isa::kAvx2>();
    case Isa::kAvx512:
      return &watched<Isa::kAvx512>();
    case Isa::kAvx512Bf16:
      return &watched<Isa::kAvx512Bf16>();
  }
  return nullptr;
}

}  // namespace

kernels::KernelPlan watched_plan() {
  kernels::KernelPlan plan = *kernels::default_plan();
  for (auto& classes : plan.products) {
    for (const Kernels*& kernels : classes) kernels = watched_twin(kernels);
  }
  plan.index_scores = watched_twin(plan.index_scores);
  plan.rest = watched_twin(plan.rest);
  return plan;
}

Reads take_reads() {
  const std::lock_guard lock(mutex);
  return std::exchange(reads, {});
}

void watch_reads(bool enabled) {
  is_watching = enabled;
}

double take_index_seconds() {
  return static_cast<double>(index_ns.exchange(0)) * 1e-9;
}

}  // namespace stoker::testing
