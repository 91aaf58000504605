#include "sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/worker_pool.h"
#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

constexpr double kMassUnit =
    4294967296.0;  // 2^32: masses are whole numbers, so that no sum depends on an order

uint64_t wide_product(uint32_t a, uint32_t b) {
  return static_cast<uint64_t>(a) * b;
}

// w = (word + 1/2) / 2^32 rounded; the noise is -ln(-ln(1 - w)), the rounding of 1 - w made good.
float noise_of(uint32_t word) {
  const auto w = static_cast<float>((static_cast<double>(word) + 0.5) * 0x1p-32);
  const float u = std::max(1.0F - w, 0x1p-25F);
  const float e = u == 1.0F ? w : -arith::log(u) * (w / (1.0F - u));
  return -arith::log(e);
}

// First index of the largest value.
int32_t argmax(std::span<const float> x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

Result<void> check_logits(std::span<const float> logits) {
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == -arith::kNegInf) {
      return Error{ErrorCode::kInternal,
                   "expected finite logits, found " + std::to_string(logits[id]) + " for token " +
                       std::to_string(id),
                   ""};
    }
    any = any || logits[id] > arith::kNegInf;
  }
  if (!any) return Error{ErrorCode::kInternal, "expected a token that is allowed, found none", ""};
  return {};
}

// Ids by falling logit, the lower id first among equals; banned ones left out; at most top_k of
// them where that is on.
void rank_ids(std::span<const float> x, int32_t top_k, std::vector<int32_t>& rank) {
  rank.clear();
  for (size_t id = 0; id < x.size(); ++id) {
    if (x[id] > arith::kNegInf) rank.push_back(static_cast<int32_t>(id));
  }
  const auto higher = [x](int32_t a, int32_t b) {
    const float left = x[static_cast<size_t>(a)];
    const float right = x[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  if (top_k > 0 && static_cast<size_t>(top_k) < rank.size()) {
    std::partial_sort(rank.begin(), rank.begin() + top_k, rank.end(), higher);
    rank.resize(static_cast<size_t>(top_k));
  } else {
    std::sort(rank.begin(), rank.end(), higher);
  }
}

// Cuts `rank` to the shortest head whose mass reaches top_p of the whole (at least one), then to
// masses of at least min_p.
void cut_by_mass(std::span<const float> x, const Params& params, Scratch& scratch) {
  auto& rank = scratch.rank;
  auto& mass = scratch.mass;
  const float top = x[static_cast<size_t>(rank[0])];
  mass.clear();
  uint64_t total = 0;
  for (const int32_t id : rank) {
    const float share = arith::exp(x[static_cast<size_t>(id)] - top);
    mass.push_back(static_cast<uint64_t>(std::nearbyint(static_cast<double>(share) * kMassUnit)));
    total += mass.back();
  }
  size_t kept = rank.size();
  if (params.top_p < 1) {
    const auto need = static_cast<uint64_t>(std::ceil(params.top_p * static_cast<double>(total)));
    uint64_t sum = mass[0];
    kept = 1;
    while (sum < need && kept < mass.size()) sum += mass[kept++];
  }
  if (params.min_p > 0) {
    const auto least = static_cast<uint64_t>(std::ceil(params.min_p * kMassUnit));
    while (kept > 0 && mass[kept - 1] < least) --kept;  // masses fall along the rank
  }
  rank.resize(kept);
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = wide_product(0xD2511F53U, counter[0]);
    const uint64_t p1 = wide_product(0xCD9E8D57U, counter[2]);
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

uint64_t choice_seed(uint64_t seed, uint64_t j) {
  if (j == 0) return seed;
  uint64_t z = seed + j + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

void gumbel(uint64_t seed, uint64_t position, uint32_t stream, std::span<float> out) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32)};
  for (size_t first = 0; first < out.size(); first += 4) {
    const auto words =
        philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream,
                static_cast<uint32_t>(first / 4)},
               key);
    for (size_t i = 0; i < 4 && first + i < out.size(); ++i) out[first + i] = noise_of(words[i]);
  }
}

void penalise(std::span<float> logits, std::span<const int32_t> counts,
              std::span<const uint8_t> in_prompt, const Penalties& penalties) {
  for (size_t id = 0; id < logits.size(); ++id) {
    float x = logits[id];
    if (in_prompt[id] != 0 || counts[id] > 0)
      x = x > 0 ? x / penalties.repetition : x * penalties.repetition;
    x = arith::fma(-penalties.frequency, static_cast<float>(counts[id]), x);
    logits[id] = x - (counts[id] > 0 ? penalties.presence : 0.0F);
  }
}

void logprobs(std::span<float> logits) {
  const FlushDenormals flush;
  const float top = *std::max_element(logits.begin(), logits.end());
  float lanes[arith::kLanes] = {};
  for (size_t id = 0; id < logits.size(); ++id) {
    logits[id] = logits[id] - top;
    lanes[id % arith::kLanes] = arith::fma(arith::exp(logits[id]), 1.0F, lanes[id % arith::kLanes]);
  }
  const float log_sum = arith::log(arith::add_lanes(lanes));
  for (float& x : logits) x = x - log_sum;
}

Result<int32_t> sample(std::span<const float> logits, uint64_t seed, uint64_t position,
                       const Params& params, Scratch& scratch) {
  const FlushDenormals flush;
  if (auto checked = check_logits(logits); !checked) return std::move(checked).error();
  const int32_t best = argmax(logits);
  const auto temperature = static_cast<float>(params.temperature);
  if (temperature == 0 || !std::isfinite(logits[static_cast<size_t>(best)] / temperature))
    return best;

  auto& x = scratch.scaled;
  x.assign(logits.begin(), logits.end());
  for (float& value : x) value = value / temperature;
  scratch.noise.resize(x.size());
  gumbel(seed, position, 0, scratch.noise);
  for (size_t id = 0; id < x.size(); ++id) scratch.noise[id] = x[id] + scratch.noise[id];
  if (params.top_k <= 0 && params.top_p >= 1 && params.min_p <= 0) return argmax(scratch.noise);

  rank_ids(x, params.top_k, scratch.rank);
  cut_by_mass(x, params, scratch);
  std::sort(scratch.rank.begin(), scratch.rank.end());
  int32_t chosen = scratch.rank[0];
  for (const int32_t id : scratch.rank) {
    if (scratch.noise[static_cast<size_t>(id)] > scratch.noise[static_cast<size_t>(chosen)])
      chosen = id;
  }
  return chosen;
}

}  // namespace stoker::sampling
