#include "speculative/cost_model.h"

#include <algorithm>
#include <cmath>

namespace stoker::speculative {
namespace {

constexpr double kSpeedShare = 0.1;   // of an observation that moves the common factor
constexpr double kCurveShare = 0.02;  // of what is left then that moves the curve, at least
constexpr double kMostOff = 4;        // beyond this an observation says that something else ran

}  // namespace

// Each small size, where steps are uneven, then 32 in every doubling.
Curve::Curve(int64_t max_size) {
  for (int64_t size = 1; size < max_size; size += std::max<int64_t>(1, size / 32))
    sizes_.push_back(size);
  sizes_.push_back(std::max<int64_t>(1, max_size));
  learned_.resize(sizes_.size());
  num_learned_.resize(sizes_.size());
  known_.reserve(sizes_.size());
}

size_t Curve::nearest(int64_t size) const {
  const auto above = std::ranges::lower_bound(sizes_, size);
  if (above == sizes_.begin()) return 0;
  if (above == sizes_.end()) return sizes_.size() - 1;
  const auto at = static_cast<size_t>(above - sizes_.begin());
  return sizes_[at] - size < size - sizes_[at - 1] ? at : at - 1;
}

double Curve::at(int64_t size) const {
  if (known_.empty()) return 0;
  auto above = std::ranges::upper_bound(known_, size, {}, &Point::size);
  if (above == known_.begin()) return above->seconds;  // fewer cost no more
  const Point low = *(above - 1);
  if (above == known_.end()) --above;
  if (above == known_.begin()) return low.seconds;
  const Point& to = *above;
  const Point& from = *(above - 1);
  const double slope = (to.seconds - from.seconds) / static_cast<double>(to.size - from.size);
  return low.seconds + slope * static_cast<double>(size - low.size);
}

void Curve::learn(int64_t size, double seconds) {
  double& learned = learned_[nearest(size)];
  int& count = num_learned_[nearest(size)];
  const double share = std::max(kCurveShare, 1.0 / (1 + count));
  learned = count == 0 ? seconds : learned * std::pow(seconds / learned, share);
  count = std::min(count + 1, 1000);
  known_.clear();
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (learned_[i] == 0) continue;
    const double least = known_.empty() ? 0 : known_.back().seconds;
    known_.push_back({sizes_[i], std::max(learned_[i], least)});
  }
}

CostModel::CostModel(int64_t max_rows, int64_t max_sequences)
    : steps_(max_rows), rounds_(max_sequences) {}

void CostModel::observe(Curve& curve, int64_t size, double seconds) {
  if (size < 1 || seconds <= 0) return;
  if (curve.knows(size)) {  // else there is nothing to tell a change of speed by
    const double off = std::clamp(seconds / (speed_ * curve.at(size)), 1 / kMostOff, kMostOff);
    seconds = off * speed_ * curve.at(size);
    speed_ *= std::pow(off, kSpeedShare);
  }
  curve.learn(size, seconds / speed_);
}

}  // namespace stoker::speculative
