#include "support/watched_kernels.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "tensor/panels.h"

namespace stoker::testing {
namespace {

using kernels::Isa;
using kernels::Kernels;

std::mutex mutex;
Reads reads;  // under the mutex
std::atomic<bool> is_watching{false};
std::atomic<int64_t> index_ns{0};
std::atomic<int64_t> choice_ns{0};
std::atomic<int64_t> weight_bytes{0};
std::atomic<int64_t> product_flops{0};
std::atomic<int64_t> index_flops{0};

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
      const PackedSize size = packed_size(job.format, 1, job.cols);
      weight_bytes += size.data + size.scale;
      product_flops += 2 * job.width * job.cols * job.x.count;
      kernels::kernels_of(kIsa).panel(job);
    };
    kernels.parts = [](const kernels::PartsJob& job) {
      note(job.data);
      weight_bytes += job.rows * job.cols * 4;
      product_flops += 2 * job.rows * job.cols * job.x_rows;
      kernels::kernels_of(kIsa).parts(job);
    };
    kernels.attend = [](const kernels::AttendJob& job) {
      product_flops += 4 * job.heads * job.dim * (job.keys.num_window + job.keys.num_latents);
      kernels::kernels_of(kIsa).attend(job);
    };
    kernels.index_scores = [](const kernels::IndexJob& job) {
      index_flops += 2 * job.rows * job.heads * job.dim * job.n;
      const auto begin = std::chrono::steady_clock::now();
      kernels::kernels_of(kIsa).index_scores(job);
      index_ns += (std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1);
    };
    kernels.find_above = [](const float* scores, int64_t begin, int64_t n, float threshold,
                            const kernels::ScoreList& list, int64_t& count) {
      const auto start = std::chrono::steady_clock::now();
      const int64_t at =
          kernels::kernels_of(kIsa).find_above(scores, begin, n, threshold, list, count);
      choice_ns += (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
      return at;
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

Work take_work() {
  const auto index = static_cast<double>(index_flops.exchange(0));
  return {static_cast<double>(weight_bytes.exchange(0)),
          static_cast<double>(product_flops.exchange(0)) + index, index};
}

double take_index_seconds() {
  return static_cast<double>(index_ns.exchange(0)) * 1e-9;
}

double take_choice_seconds() {
  return static_cast<double>(choice_ns.exchange(0)) * 1e-9;
}

}  // namespace stoker::testing
