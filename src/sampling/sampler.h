// Draws the tokens of one sequence. The choice at a position depends on the logits, the parameters,
// the seed, the position and the tokens before it alone. What comes first: a forced token, bias and
// bans, penalties, temperature, top-k, top-p, min-p, noise. Equal logits: the lower id ranks first.
//
// Source: tools/reference/v41/sampling.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.h"
#include "sampling/scratch.h"
#include "sampling/token_counts.h"
#include "stoker/result.h"

namespace stoker::sampling {

/// Parameters of a sequence with what its tokens so far mean to them. A value; draw() from several
/// threads at a time, as long as nobody calls accept().
class Sampler {
 public:
  /// Nothing accepted yet.
  Sampler(Params params, uint64_t seed, std::span<const int32_t> prompt);

  /// The token that follows the accepted ones and then `run`, tokens that were drafted and may
  /// still be given up; `logits` [vocab] are those behind the last of them. `mask`: bit i % 64 of
  /// word i / 64 is set where id i may come; words for all of the vocabulary, or none: all may.
  /// Errors: kInternal where a logit is NaN or infinite; kInvalidArgument where bans leave no
  /// token.
  Result<int32_t> draw(std::span<const float> logits, std::span<const int32_t> run,
                       Scratch& scratch, std::span<const uint64_t> mask = {}) const;

  /// The sequence goes on with this token.
  void accept(int32_t token);

  const Params& params() const { return params_; }
  uint64_t seed() const { return seed_; }

 private:
  bool is_forced(std::span<const int32_t> run) const;
  bool shapes(std::span<const int32_t> run) const;
  void shape(std::span<const float> logits, std::span<const int32_t> run,
             std::vector<float>& out) const;
  void ban_bad_words(std::span<const int32_t> run, std::vector<float>& out) const;
  void penalise(std::span<const int32_t> run, std::vector<float>& out) const;
  float penalised(float x, int32_t count) const;
  int64_t answer_length(std::span<const int32_t> run) const {
    return num_accepted_ + static_cast<int64_t>(run.size());
  }

  Params params_;
  uint64_t seed_;
  int64_t num_prompt_;
  int64_t num_accepted_ = 0;
  bool has_penalties_ = false;
  bool may_force_ = false;     // nothing has come that the forced token does without
  TokenCounts counts_;         // with penalties
  std::vector<int32_t> tail_;  // of the accepted: as many as a bad word can begin with
  size_t max_tail_ = 0;
};

}  // namespace stoker::sampling
