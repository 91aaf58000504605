// Which sequences draft in a step, and how many of their drafts it verifies: what gives the most
// tokens a second, as far as costs and acceptance are known. No answer depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "speculative/calibration.h"
#include "speculative/cost_model.h"
#include "speculative/governor.h"
#include "speculative/lengths.h"

namespace stoker::speculative {

struct PolicyOptions {
  int32_t num_drafts = 0;     ///< of a round; >= 1
  int64_t max_rows = 0;       ///< of a step
  int64_t max_sequences = 0;  ///< of a round
  int32_t window = 0;         ///< positions whose draft keys a round reads
  bool is_adaptive = true;    ///< else all draft in every step, and everything is verified
};

/// How tokens are chosen decides how often drafts are accepted; each kind is calibrated apart.
enum class Kind { kGreedy, kCool, kWarm, kHot };
inline constexpr size_t kNumKinds = 4;
Kind kind_of(double temperature);

/// Drafts of a sequence, which has them until the next step.
struct Proposal {
  std::vector<int32_t> tokens;    ///< behind the pending token; none: it does not draft
  std::vector<float> confidence;  ///< [tokens], as Model::draft gives it
  std::vector<float> survival;  ///< [tokens]: probability that this one and all before are accepted
  int32_t length = 0;           ///< of them, those that the step verifies
  bool keeps_keys = false;      ///< the step's rows keep draft keys
};

/// A sequence whose next token is wanted and that may have drafts.
struct Candidate {
  Proposal* proposal = nullptr;
  Kind kind = Kind::kGreedy;
  int32_t max_drafts = 0;  ///< that can be of use; >= 1
  bool has_keys = false;   ///< all that a round would read
};

/// The engine's thread only.
class Policy {
 public:
  explicit Policy(const PolicyOptions& options);

  /// Drafts num_drafts tokens for each of the candidates with these numbers, tokens and confidence;
  /// returns the seconds that it took.
  using Round = std::function<double(std::span<const size_t> numbers)>;

  /// Before a step of so many rows and tokens without drafts, some of whose sequences are
  /// candidates: fills their proposals. Returns the seconds of the draft round; 0 without one.
  double propose(std::span<const Candidate> candidates, const PlainStep& step, const Round& round);

  /// `accepted` of the candidate's drafts were taken; of those that were verified.
  void observe_verified(const Candidate& candidate, int32_t accepted);

  /// What a step was that had no rows of prompts.
  struct Step {
    int64_t sequences = 0;
    int64_t rows = 0;
    int64_t tokens = 0;
    double round_seconds = 0;
    double seconds = 0;  ///< without the draft round
  };
  void observe_step(const Step& step);

  /// Rows of prompts shall keep draft keys, for drafts that will be made behind them.
  bool keeps_keys() const { return !options_.is_adaptive || governor_.keeps_keys(); }

  CostModel& costs() { return costs_; }
  const Governor& governor() const { return governor_; }

 private:
  void select(std::span<const Candidate> candidates, const PlainStep& step);
  void choose_lengths(std::span<const Candidate> candidates, PlainStep step);

  const PolicyOptions options_;
  CostModel costs_;
  std::vector<Calibration> calibrations_;  // of each kind
  Governor governor_;
  LengthChooser chooser_;
  std::vector<size_t> selected_;
  bool is_probe_ = false;
  std::vector<Verifiable> verifiable_;
};

}  // namespace stoker::speculative
