// What steps cost, as measured, and from that how many prefill rows a step may have beside those
// that decode. Moves work between steps only: no answer depends on it.
#pragma once

#include <array>
#include <cstdint>

namespace stoker::engine {

/// Learns from the steps that were run. The engine's thread only.
class StepCost {
 public:
  /// max_rows: of a step; >= 1.
  explicit StepCost(int64_t max_rows) : max_rows_(max_rows) {}

  /// A step took `seconds` (> 0) in which so many sequences decoded, with their drafts, and prompts
  /// had so many rows.
  void observe(int64_t decode_rows, int64_t prefill_rows, double seconds);

  /// What so many prefill rows add to a step; 0 as long as nothing is known.
  double prefill_seconds(int64_t prefill_rows) const {
    return row_seconds_ * static_cast<double>(prefill_rows);
  }

  /// Prefill rows for a step that also has `decode_rows`. Without decode rows: all that fit. With
  /// them: as many as make the step kStretch times as long as one that only decodes, or
  /// kLeastSeconds long if that is more; always some, so that prompts get on.
  int64_t prefill_rows(int64_t decode_rows) const;

  static constexpr double kStretch = 3;
  static constexpr double kLeastSeconds = 0.05;
  static constexpr int64_t kLeastRows = 16;

 private:
  double decode_seconds(int64_t decode_rows) const;

  const int64_t max_rows_;
  std::array<double, 32> decode_seconds_{};  // of steps of [2^i, 2^(i+1)) decode rows; 0: not seen
  double row_seconds_ = 0;                   // of one prefill row more; 0: not seen
};

}  // namespace stoker::engine
