// From the draft head's confidence to the probability that a draft is accepted, learned from what
// was.
//
// For each place in a round a logistic curve, sigmoid(slope * z + offset), fitted to what was seen
// there and held near the one of all places, which is held near the head's own: slope 1, offset 0.
// (A temperature alone, 1 / slope, cannot say that drafts are accepted less often than the head
// expects, as they are when tokens are sampled.) On top, each bin of z is moved towards the share
// that was accepted in it. Old trials are forgotten.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stoker::speculative {

/// The engine's thread only.
class Calibration {
 public:
  /// num_drafts: places in a round.
  explicit Calibration(int32_t num_drafts);

  /// A trial: draft number `place`, with all before it accepted, was verified.
  void observe(int32_t place, float z, bool accepted);

  /// What was seen until now counts so much less.
  void fade(double factor);

  /// The probability that a draft is accepted if all before it are.
  double probability(int32_t place, float z) const;

  /// confidence [n] of a round -> survival [n]: the products of the probabilities.
  void survivals(std::span<const float> confidence, std::span<float> survival) const;

 private:
  static constexpr size_t kBins = 16;  // of z in [-8, 8]
  struct Bin {
    double trials = 0;
    double accepted = 0;
  };
  using Bins = std::array<Bin, kBins>;
  struct Logistic {
    double slope = 1;
    double offset = 0;
    double at(double z) const;
  };
  struct Place {
    Bins bins{};
    Logistic curve;
  };
  static size_t bin_of(float z);
  static Logistic fit(const Bins& bins, const Logistic& near, double trust);
  void fit_all();

  std::vector<Place> places_;
  int64_t num_trials_ = 0;
};

}  // namespace stoker::speculative
