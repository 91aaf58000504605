#include "sampling/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sampling/ranking.h"
#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

constexpr double kMassUnit = 4294967296.0;  // 2^32
constexpr float kMostNoise = 22.9F;         // noise.h

// An id so far below the top can neither win, whatever the noise (22.9 + 2.9), nor has a mass
// (ln 2^33 = 22.9).
constexpr float kFar = 26;
// Where the head of a ranking is looked for first: most often few ids are so near to the top.
constexpr float kDistances[] = {3, 9, kFar};

// The least e^d whose mass is at least that of min_p.
float least_share_of(double min_p) {
  const double least = std::ceil(min_p * kMassUnit);
  const auto reaches = [least](float share) {
    return std::nearbyint(static_cast<double>(share) * kMassUnit) >= least;
  };
  auto share = static_cast<float>((least - 0.5) / kMassUnit);
  while (reaches(share)) share = std::nextafter(share, 0.0F);
  while (!reaches(share)) share = std::nextafter(share, 2.0F);
  return share;
}

// One row while its filters are found.
class Filters {
 public:
  Filters(std::span<const float> x, float top, const Params& params, Scratch& scratch)
      : x_(x), top_(top), params_(params), scratch_(scratch) {}

  /// Writes into the job what top-k, top-p and min-p leave.
  void set(DrawJob& job) {
    if (params_.top_k > 0) cut_top_k();
    if (params_.top_p < 1) cut_top_p();
    job.last = last_;
    if (is_cut_) job.above = std::max(job.above, std::nextafter(last_.x, arith::kNegInf));
    if (params_.min_p > 0) {
      job.least_share = least_share_of(params_.min_p);
      job.top = top_;
      const float distance = -std::log(job.least_share) + 0.001F;
      job.above = std::max(job.above, surely_below(top_, distance));
    }
  }

 private:
  // Fewer than k ids that are not far are all kept; what becomes of the others does not matter.
  void cut_top_k() {
    const auto k = static_cast<size_t>(params_.top_k);
    for (const float distance : kDistances) {
      list_above(x_, surely_below(top_, distance), scratch_);
      if (scratch_.list.count < k) continue;
      set_last(end_of_first(k, scratch_));
      return;
    }
  }

  // Of all ids, or of those that top-k has left, which are listed.
  void cut_top_p() {
    if (is_cut_) {
      keep_head(last_, scratch_.list);
      const double total = weigh();
      set_last(end_of_head(std::ceil(params_.top_p * total), scratch_));
      return;
    }
    const double total = scratch_.scans->mass_sum(x_.data(), static_cast<int64_t>(x_.size()), top_);
    const double need = std::ceil(params_.top_p * total);
    for (const float distance : kDistances) {
      list_above(x_, surely_below(top_, distance), scratch_);
      if (weigh() < need) continue;
      set_last(end_of_head(need, scratch_));
      return;
    }
  }

  // Masses of the listed ids; their sum.
  double weigh() {
    Listed& list = scratch_.list;
    scratch_.scans->masses(list.x.data(), static_cast<int64_t>(list.count), top_,
                           list.weight.data());
    return std::accumulate(list.weight.begin(),
                           list.weight.begin() + static_cast<ptrdiff_t>(list.count), 0.0);
  }

  void set_last(Place last) {
    last_ = last;
    is_cut_ = true;
  }

  const std::span<const float> x_;
  const float top_;
  const Params& params_;
  Scratch& scratch_;
  Place last_{arith::kNegInf, std::numeric_limits<int32_t>::max()};
  bool is_cut_ = false;
};

}  // namespace

int32_t draw(std::span<const float> logits, float most, const NoiseSource& source,
             const Params& params, Scratch& scratch) {
  const Scans& scans = *scratch.scans;
  const auto n = static_cast<int64_t>(logits.size());
  const auto first_of = [&](std::span<const float> x, float value) {
    return static_cast<int32_t>(scans.first_of(x.data(), n, value));
  };
  const auto temperature = static_cast<float>(params.temperature);
  const float top = most / temperature;
  if (temperature == 0 || !std::isfinite(top)) return first_of(logits, most);

  std::span<const float> x = logits;
  if (temperature != 1) {
    scratch.scaled.resize(logits.size());
    scans.divide(logits.data(), n, temperature, scratch.scaled.data());
    x = scratch.scaled;
  }
  const int32_t likeliest = first_of(x, top);  // no filter takes it away
  const Score so_far{top + noise_of(source, likeliest), likeliest};
  DrawJob job{.x = x.data(),
              .n = n,
              .above = surely_below(so_far.value, kMostNoise),
              .last = {arith::kNegInf, std::numeric_limits<int32_t>::max()},
              .source = source};
  Filters(x, top, params, scratch).set(job);
  return scans.draw(job, so_far).id;
}

}  // namespace stoker::sampling
