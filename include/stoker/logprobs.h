// Log-probabilities of tokens: natural logarithms of the distribution that the model itself gives,
// before bias, bans, penalties and temperature (docs/numerics.md).
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

/// One token that might have come.
struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  ///< <= 0
  bool operator==(const TokenLogprob&) const = default;
};

/// What is told of the token at one position. A plain value.
struct PositionLogprobs {
  float logprob = 0;              ///< of the token that is there
  int32_t rank = 1;               ///< its place among all, the likeliest being 1
  std::vector<TokenLogprob> top;  ///< the likeliest ones, as many as were asked for, by rank
  bool operator==(const PositionLogprobs&) const = default;
};

}  // namespace stoker
