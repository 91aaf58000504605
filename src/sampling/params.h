// How the tokens of a sequence are chosen: what shapes the logits, and what is left of the
// distribution.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stoker::sampling {

/// Penalties for tokens that were there before; 1, 0 and 0 are off. repetition > 0.
struct Penalties {
  float repetition = 1;
  float presence = 0;
  float frequency = 0;
};

/// What is added to the logit of an id; -inf bans it. Never NaN or +inf.
struct Bias {
  int32_t id = 0;
  float value = 0;
};

/// A token that is the choice at its position of the answer, whatever the logits and all bans,
/// unless one of `unless` came in the answer before.
struct Forced {
  int64_t position = 0;  ///< tokens of the answer before it
  int32_t token = 0;
  std::vector<int32_t> unless = {};
};

/// Values in range: temperature >= 0, top_p and min_p in [0, 1]; ids in the vocabulary.
struct Params {
  double temperature = 1;  ///< 0: the largest logit
  int32_t top_k = 0;       ///< <= 0: off
  double top_p = 1;        ///< >= 1: off
  double min_p = 0;        ///< <= 0: off
  Penalties penalties = {};
  std::vector<Bias> bias = {};
  std::vector<int32_t> allowed = {};  ///< all others are banned; empty: all are allowed
  /// Runs of ids that may not come in the answer, none empty: the last id of one is banned where
  /// the ids before it are the last ones of the answer.
  std::vector<std::vector<int32_t>> bad_words = {};
  int32_t min_tokens = 0;          ///< until the answer has so many tokens,
  std::vector<int32_t> ends = {};  ///< these are banned
  std::optional<Forced> forced = {};
};

}  // namespace stoker::sampling
