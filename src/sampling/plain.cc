#include "sampling/plain.h"

#include <algorithm>
#include <cmath>

#include "base/worker_pool.h"
#include "tensor/arith.h"

namespace stoker::sampling::plain {
namespace {

constexpr double kMassUnit =
    4294967296.0;  // 2^32: masses are whole numbers, so that no sum depends on an order

// First index of the largest value.
int32_t argmax(std::span<const float> x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

bool ends_with(std::span<const int32_t> answer, std::span<const int32_t> run) {
  return run.size() <= answer.size() &&
         std::equal(run.begin(), run.end(), answer.end() - static_cast<ptrdiff_t>(run.size()));
}

bool is_forced(const std::optional<Forced>& forced, std::span<const int32_t> answer) {
  return forced && static_cast<int64_t>(answer.size()) == forced->position &&
         std::find_first_of(answer.begin(), answer.end(), forced->unless.begin(),
                            forced->unless.end()) == answer.end();
}

// Ids by falling value, the lower id first among equals; banned ones left out; at most top_k of
// them where that is on.
std::vector<int32_t> ranked(std::span<const float> x, int32_t top_k) {
  std::vector<int32_t> rank;
  for (size_t id = 0; id < x.size(); ++id) {
    if (x[id] > arith::kNegInf) rank.push_back(static_cast<int32_t>(id));
  }
  std::stable_sort(rank.begin(), rank.end(), [x](int32_t a, int32_t b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  if (top_k > 0 && static_cast<size_t>(top_k) < rank.size())
    rank.resize(static_cast<size_t>(top_k));
  return rank;
}

// The ids that top-k, top-p and min-p leave, best first.
std::vector<int32_t> kept(std::span<const float> x, const Params& params) {
  std::vector<int32_t> rank = ranked(x, params.top_k);
  const float top = x[static_cast<size_t>(rank[0])];
  std::vector<uint64_t> mass;
  uint64_t total = 0;
  for (const int32_t id : rank) {
    const float share = arith::exp(x[static_cast<size_t>(id)] - top);
    mass.push_back(static_cast<uint64_t>(std::nearbyint(static_cast<double>(share) * kMassUnit)));
    total += mass.back();
  }
  size_t count = rank.size();
  if (params.top_p < 1) {
    const auto need = static_cast<uint64_t>(std::ceil(params.top_p * static_cast<double>(total)));
    uint64_t sum = mass[0];
    count = 1;
    while (sum < need && count < mass.size()) sum += mass[count++];
  }
  const auto least = static_cast<uint64_t>(std::ceil(std::max(params.min_p, 0.0) * kMassUnit));
  std::vector<int32_t> left;
  for (size_t i = 0; i < count; ++i) {
    if (mass[i] >= least) left.push_back(rank[i]);
  }
  return left;
}

}  // namespace

std::vector<float> shaped(std::span<const float> logits, const Params& params,
                          std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  const KeepDenormals keep;
  std::vector<float> x(logits.begin(), logits.end());
  const auto at = [&x](int32_t id) -> float& { return x[static_cast<size_t>(id)]; };
  if (!params.allowed.empty()) {
    std::fill(x.begin(), x.end(), arith::kNegInf);
    for (const int32_t id : params.allowed) at(id) = logits[static_cast<size_t>(id)];
  }
  for (const Bias& bias : params.bias) at(bias.id) += bias.value;
  if (static_cast<int64_t>(answer.size()) < params.min_tokens) {
    for (const int32_t id : params.ends) at(id) = arith::kNegInf;
  }
  for (const auto& word : params.bad_words) {
    if (ends_with(answer, std::span(word).first(word.size() - 1))) at(word.back()) = arith::kNegInf;
  }
  std::vector<int32_t> counts(x.size());
  std::vector<uint8_t> in_prompt(x.size());
  for (const int32_t id : prompt) in_prompt[static_cast<size_t>(id)] = 1;
  for (const int32_t id : answer) ++counts[static_cast<size_t>(id)];
  penalise(x, counts, in_prompt, params.penalties);
  if (is_forced(params.forced, answer)) {
    std::fill(x.begin(), x.end(), arith::kNegInf);
    at(params.forced->token) = 0;
  }
  return x;
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

int32_t sample(std::span<const float> logits, const NoiseSource& source, const Params& params) {
  const KeepDenormals keep;
  const int32_t best = argmax(logits);
  const auto temperature = static_cast<float>(params.temperature);
  if (temperature == 0 || !std::isfinite(logits[static_cast<size_t>(best)] / temperature))
    return best;

  std::vector<float> x(logits.begin(), logits.end());
  for (float& value : x) value = value / temperature;
  std::vector<float> noise(x.size());
  gumbel(source, noise);
  std::vector<float> score(x.size(), arith::kNegInf);
  for (const int32_t id : kept(x, params))
    score[static_cast<size_t>(id)] = x[static_cast<size_t>(id)] + noise[static_cast<size_t>(id)];
  return argmax(score);
}

void logprobs(std::span<float> logits) {
  const KeepDenormals keep;
  const float top = *std::max_element(logits.begin(), logits.end());
  float lanes[arith::kLanes] = {};
  for (size_t id = 0; id < logits.size(); ++id) {
    logits[id] = logits[id] - top;
    lanes[id % arith::kLanes] = arith::fma(arith::exp(logits[id]), 1.0F, lanes[id % arith::kLanes]);
  }
  const float log_sum = arith::log(arith::add_lanes(lanes));
  for (float& x : logits) x = x - log_sum;
}

}  // namespace stoker::sampling::plain
