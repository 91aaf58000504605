#include "engine/step_cost.h"

#include <algorithm>
#include <bit>

namespace stoker::engine {
namespace {

constexpr double kWeight = 0.2;  // of the newest measurement

void learn(double& known, double measured) {
  known = known == 0 ? measured : known + kWeight * (measured - known);
}

size_t size_class(int64_t rows) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(rows)) - 1);
}

}  // namespace

void StepCost::observe(int64_t decode_rows, int64_t prefill_rows, double seconds) {
  if (prefill_rows == 0) {
    if (decode_rows > 0) learn(decode_seconds_[size_class(decode_rows)], seconds);
    return;
  }
  const double rest = seconds - decode_seconds(decode_rows);
  // A mixed step that was faster than the decode rows alone ever were says nothing of prefill.
  if (rest > 0) learn(row_seconds_, rest / static_cast<double>(prefill_rows));
}

// Of the nearest size that was measured, the smaller one first; 0: none was.
double StepCost::decode_seconds(int64_t decode_rows) const {
  if (decode_rows == 0) return 0;
  const auto at = static_cast<int>(size_class(decode_rows));
  for (int distance = 0; distance < static_cast<int>(decode_seconds_.size()); ++distance) {
    for (const int near : {at - distance, at + distance}) {
      if (near < 0 || near >= static_cast<int>(decode_seconds_.size())) continue;
      const double known = decode_seconds_[static_cast<size_t>(near)];
      if (known > 0) return known;
    }
  }
  return 0;
}

int64_t StepCost::prefill_rows(int64_t decode_rows) const {
  const int64_t room = std::max<int64_t>(max_rows_ - decode_rows, 1);
  if (decode_rows == 0) return room;
  const int64_t least = std::min(kLeastRows, room);
  if (row_seconds_ == 0) return least;  // to be measured by this step
  const double decode = decode_seconds(decode_rows);
  const double allowed = std::max(decode * kStretch, kLeastSeconds) - decode;
  const double rows = allowed / row_seconds_;
  if (rows >= static_cast<double>(room)) return room;
  return std::max(static_cast<int64_t>(rows), least);
}

}  // namespace stoker::engine
