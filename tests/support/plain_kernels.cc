#include "support/plain_kernels.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/attend.h"
#include "kernels/index.h"
#include "kernels/moe.h"
#include "tensor/formats.h"

namespace stoker::testing {
namespace {

using kernels::AttendJob;
using kernels::IndexJob;
using kernels::Kernels;

void attend(const AttendJob& job) {
  const kernels::KeyRecords& records = job.keys;
  const int64_t n = records.num_window + records.num_latents;
  std::vector<float> keys(static_cast<size_t>(n * job.dim));
  for (int64_t i = 0; i < n; ++i) {
    float* key = keys.data() + i * job.dim;
    if (i < records.num_window) {
      decode_window(records.window[i], job.dim, key);
    } else {
      decode_latent(records.latents[i - records.num_window], job.dim, key);
    }
  }
  std::vector<float> scratch;
  kernels::attend(job.q, keys.data(), n, job.sink, job.heads, job.dim, scratch, job.out);
}

// The places of columns 0, 1, .. of a query in an arranged row: found by arranging their numbers.
std::vector<size_t> places_of_columns(int64_t dim) {
  CHECK(dim <= 255, "numbers that bf16 holds");
  std::vector<float> numbers;
  for (int64_t k = 1; k <= dim; ++k) numbers.push_back(static_cast<float>(k));
  std::vector<float> arranged(
      static_cast<size_t>(kernels::arranged_floats(WeightFormat::kFp4Panel, false, 1, dim)));
  kernels::arrange(WeightFormat::kFp4Panel, false, numbers.data(), dim, 0, 1, arranged.data());
  std::vector<size_t> places;
  for (const float number : numbers) {
    places.push_back(static_cast<size_t>(std::ranges::find(arranged, number) - arranged.begin()));
  }
  return places;
}

void index_scores(const IndexJob& job) {
  const std::vector<size_t> places = places_of_columns(job.dim);
  std::vector<float> q;
  for (int64_t row = 0; row < job.rows * job.heads; ++row) {
    for (const size_t place : places) {
      const auto run = static_cast<int64_t>(place) / kernels::kRunSteps;
      const auto step = static_cast<int64_t>(place) % kernels::kRunSteps;
      q.push_back(job.q.row(row)[run * job.q.all * kernels::kRunSteps + step]);
    }
  }
  const int64_t bytes = index_record_bytes(job.dim);
  std::vector<uint8_t> keys;
  for (int64_t i = 0; i < job.n; ++i) keys.insert(keys.end(), job.keys[i], job.keys[i] + bytes);
  kernels::index_scores({q.data(), job.weights, job.rows, job.heads, job.dim}, keys.data(), job.n,
                        job.scores, job.stride);
}

int64_t find_above(const float* scores, int64_t begin, int64_t n, float threshold,
                   const kernels::ScoreList& list, int64_t& count) {
  int64_t at = begin;
  for (; at < n && count < list.room; ++at) {
    if (!(scores[at] > threshold)) continue;
    list.values[count] = scores[at];
    list.index[count++] = static_cast<int32_t>(at);
  }
  return at;
}

const Kernels kPlain = {
    .isa = kernels::Isa::kAvx2,
    .bf16_pairs = false,
    .panel =
        [](const kernels::PanelJob&) { CHECK(false, "weights are as the checkpoint has them"); },
    .parts =
        [](const kernels::PartsJob&) { CHECK(false, "weights are as the checkpoint has them"); },
    .attend = attend,
    .index_scores = index_scores,
    .find_above = find_above,
    .swiglu = kernels::swiglu};

}  // namespace

kernels::KernelPlan plain_plan() {
  kernels::KernelPlan plan;
  for (auto& classes : plan.products) classes.fill(&kPlain);
  plan.index_scores = &kPlain;
  plan.rest = &kPlain;
  return plan;
}

}  // namespace stoker::testing
