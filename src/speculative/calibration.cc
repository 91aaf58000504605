#include "speculative/calibration.h"

#include <algorithm>
#include <cmath>

namespace stoker::speculative {
namespace {

constexpr double kReach = 8;        // bins cover [-kReach, kReach]
constexpr double kKept = 0.995;     // of what was seen, at each trial
constexpr int64_t kFitEvery = 8;    // trials
constexpr double kTrustInHead = 1;  // how strongly the curve of all places is held near the head's
constexpr double kTrustInAll = 4;   // and each place's near that of all
constexpr double kTrustInCurve = 16;  // trials: a bin with so many counts as much as the curve
constexpr int kSteps = 6;             // of Newton's method, from where the curve was

double center_of(size_t bin) {
  return -kReach + static_cast<double>(bin) + 0.5;
}

}  // namespace

double Calibration::Logistic::at(double z) const {
  return 1 / (1 + std::exp(-std::clamp(slope * z + offset, -30.0, 30.0)));
}

Calibration::Calibration(int32_t num_drafts) : places_(static_cast<size_t>(num_drafts)) {}

size_t Calibration::bin_of(float z) {
  const double at = std::clamp(static_cast<double>(z) + kReach, 0.0, 2 * kReach - 1);
  return std::isnan(z) ? 0 : static_cast<size_t>(at);
}

// The likeliest curve for what happened, with normal priors of that precision around `near`.
Calibration::Logistic Calibration::fit(const Bins& bins, const Logistic& near, double trust) {
  const double slope_trust = 8 * trust;
  Logistic curve = near;
  for (int step = 0; step < kSteps; ++step) {
    double by_slope = slope_trust * (curve.slope - near.slope);
    double by_offset = trust * (curve.offset - near.offset);
    double slope_slope = slope_trust;
    double slope_offset = 0;
    double offset_offset = trust;
    for (size_t b = 0; b < kBins; ++b) {
      const double z = center_of(b);
      const double p = curve.at(z);
      const double off = bins[b].trials * p - bins[b].accepted;
      const double weight = bins[b].trials * p * (1 - p);
      by_slope += off * z;
      by_offset += off;
      slope_slope += weight * z * z;
      slope_offset += weight * z;
      offset_offset += weight;
    }
    const double det = slope_slope * offset_offset - slope_offset * slope_offset;
    const auto limited = [](double change) { return std::clamp(change, -1.0, 1.0); };
    curve.slope -= limited((offset_offset * by_slope - slope_offset * by_offset) / det);
    curve.offset -= limited((slope_slope * by_offset - slope_offset * by_slope) / det);
    curve.slope = std::clamp(curve.slope, 0.0, 4.0);
    curve.offset = std::clamp(curve.offset, -8.0, 8.0);
  }
  return curve;
}

void Calibration::fit_all() {
  Bins all{};
  for (const Place& place : places_) {
    for (size_t b = 0; b < kBins; ++b) {
      all[b].trials += place.bins[b].trials;
      all[b].accepted += place.bins[b].accepted;
    }
  }
  const Logistic of_all = fit(all, {}, kTrustInHead);
  for (Place& place : places_) place.curve = fit(place.bins, of_all, kTrustInAll);
}

void Calibration::fade(double factor) {
  for (Place& place : places_) {
    for (Bin& bin : place.bins) {
      bin.trials *= factor;
      bin.accepted *= factor;
    }
  }
  fit_all();
}

void Calibration::observe(int32_t place, float z, bool accepted) {
  Place& at = places_[static_cast<size_t>(place)];
  for (Bin& bin : at.bins) {
    bin.trials *= kKept;
    bin.accepted *= kKept;
  }
  Bin& bin = at.bins[bin_of(z)];
  bin.trials += 1;
  bin.accepted += accepted ? 1 : 0;
  if (++num_trials_ % kFitEvery == 0) fit_all();
}

double Calibration::probability(int32_t place, float z) const {
  if (std::isnan(z)) return 0;
  const Place& at = places_[static_cast<size_t>(place)];
  const Bin& bin = at.bins[bin_of(z)];
  const double expected = at.curve.at(center_of(bin_of(z)));
  const double off =
      (bin.accepted + kTrustInCurve * expected) / ((bin.trials + kTrustInCurve) * expected);
  return std::min(1.0, at.curve.at(static_cast<double>(z)) * off);
}

void Calibration::survivals(std::span<const float> confidence, std::span<float> survival) const {
  double product = 1;
  for (size_t k = 0; k < confidence.size(); ++k) {
    product *= probability(static_cast<int32_t>(k), confidence[k]);
    survival[k] = static_cast<float>(product);
  }
}

}  // namespace stoker::speculative
