// What steps and draft rounds cost on this machine, as far as they were run: every one counts. Only
// ratios matter to those who ask, so what slows everything down at once moves one factor and leaves
// the curves alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::speculative {

/// Seconds by size, from 1 on, known at some sizes: between these on a line, beyond the last on the
/// line of the last two, never falling.
class Curve {
 public:
  explicit Curve(int64_t max_size);

  bool is_known() const { return !known_.empty(); }
  /// Whether the nearest of its sizes was learned.
  bool knows(int64_t size) const { return learned_[nearest(size)] > 0; }
  /// 0 where nothing is known. size >= 1.
  double at(int64_t size) const;
  /// Moves the curve at the nearest of its sizes towards `seconds` (> 0): all the way where nothing
  /// was known, else the less the more was learned there.
  void learn(int64_t size, double seconds);

 private:
  struct Point {
    int64_t size = 0;
    double seconds = 0;
  };
  size_t nearest(int64_t size) const;

  std::vector<int64_t> sizes_;   // rising
  std::vector<double> learned_;  // of each; 0: not known
  std::vector<int> num_learned_;
  std::vector<Point> known_;  // rising, each at least the one before
};

/// The engine's thread only.
class CostModel {
 public:
  /// max_rows: of a step; max_sequences: of a draft round.
  CostModel(int64_t max_rows, int64_t max_sequences);

  void observe_step(int64_t rows, double seconds) { observe(steps_, rows, seconds); }
  void observe_round(int64_t sequences, double seconds) { observe(rounds_, sequences, seconds); }

  bool is_known() const { return steps_.is_known() && rounds_.is_known(); }
  /// Whether steps of about so many rows were seen: their cost is more than a guess.
  bool knows_step(int64_t rows) const { return steps_.knows(rows); }
  /// Of a step with so many rows; 0 for none of them, or where nothing is known.
  double step_seconds(int64_t rows) const { return rows < 1 ? 0 : speed_ * steps_.at(rows); }
  /// Of a draft round for so many sequences.
  double round_seconds(int64_t sequences) const {
    return sequences < 1 ? 0 : speed_ * rounds_.at(sequences);
  }

 private:
  void observe(Curve& curve, int64_t size, double seconds);

  Curve steps_;
  Curve rounds_;
  double speed_ = 1;  // that all seconds have in common
};

}  // namespace stoker::speculative
