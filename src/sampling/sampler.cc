#include "sampling/sampler.h"

#include <algorithm>
#include <utility>

#include "base/worker_pool.h"
#include "sampling/draw.h"
#include "sampling/logprobs.h"
#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

void ban_unmasked(std::span<const uint64_t> mask, std::vector<float>& out) {
  constexpr size_t kBits = 64;
  for (size_t word = 0; word * kBits < out.size(); ++word) {
    if (mask[word] == ~uint64_t{0}) continue;
    const size_t end = std::min(out.size(), (word + 1) * kBits);
    for (size_t id = word * kBits; id < end; ++id) {
      if (((mask[word] >> (id % kBits)) & 1U) == 0) out[id] = arith::kNegInf;
    }
  }
}

}  // namespace

Sampler::Sampler(Params params, uint64_t seed, std::span<const int32_t> prompt)
    : params_(std::move(params)), seed_(seed), num_prompt_(static_cast<int64_t>(prompt.size())) {
  const Penalties& penalties = params_.penalties;
  has_penalties_ = penalties.repetition != 1 || penalties.presence != 0 || penalties.frequency != 0;
  if (penalties.repetition != 1) counts_ = TokenCounts(prompt);  // to the others it means nothing
  may_force_ = params_.forced.has_value();
  for (const auto& word : params_.bad_words) max_tail_ = std::max(max_tail_, word.size() - 1);
}

Result<int32_t> Sampler::draw(std::span<const float> logits, std::span<const int32_t> run,
                              Scratch& scratch, std::span<const uint64_t> mask) const {
  const KeepDenormals keep;
  const auto extent_of = [&scratch](std::span<const float> x) {
    return scratch.scans->extent(x.data(), static_cast<int64_t>(x.size()));
  };
  const Extent extent = extent_of(logits);
  if (!extent.is_finite) return not_finite(logits);
  if (is_forced(run)) return params_.forced->token;
  const NoiseSource source{seed_, static_cast<uint64_t>(num_prompt_ + answer_length(run))};
  if (mask.empty() && !shapes(run))
    return sampling::draw(logits, extent.most, source, params_, scratch);

  shape(logits, run, scratch.shaped);
  if (!mask.empty()) ban_unmasked(mask, scratch.shaped);
  const float most = extent_of(scratch.shaped).most;
  if (most == arith::kNegInf) {
    return Error{ErrorCode::kInvalidArgument,
                 "allowed_token_ids, bad_words, logit_bias, min_tokens and structured output leave "
                 "no token that may be chosen: allow more",
                 ""};
  }
  return sampling::draw(scratch.shaped, most, source, params_, scratch);
}

void Sampler::accept(int32_t token) {
  ++num_accepted_;
  if (has_penalties_) counts_.accept(token);
  if (may_force_) may_force_ = !contains(params_.forced->unless, token);
  if (max_tail_ == 0) return;
  if (tail_.size() == max_tail_) tail_.erase(tail_.begin());
  tail_.push_back(token);
}

bool Sampler::is_forced(std::span<const int32_t> run) const {
  return may_force_ && answer_length(run) == params_.forced->position &&
         std::ranges::none_of(run,
                              [this](int32_t id) { return contains(params_.forced->unless, id); });
}

// Whether any logit becomes another one.
bool Sampler::shapes(std::span<const int32_t> run) const {
  return has_penalties_ || !params_.bias.empty() || !params_.allowed.empty() ||
         !params_.bad_words.empty() ||
         (!params_.ends.empty() && answer_length(run) < params_.min_tokens);
}

void Sampler::shape(std::span<const float> logits, std::span<const int32_t> run,
                    std::vector<float>& out) const {
  const auto at = [&out](int32_t id) -> float& { return out[static_cast<size_t>(id)]; };
  if (params_.allowed.empty()) {
    out.assign(logits.begin(), logits.end());
  } else {
    out.assign(logits.size(), arith::kNegInf);
    for (const int32_t id : params_.allowed) at(id) = logits[static_cast<size_t>(id)];
  }
  for (const Bias& bias : params_.bias) at(bias.id) = at(bias.id) + bias.value;
  if (answer_length(run) < params_.min_tokens) {
    for (const int32_t id : params_.ends) at(id) = arith::kNegInf;
  }
  ban_bad_words(run, out);
  if (has_penalties_) penalise(run, out);
}

void Sampler::ban_bad_words(std::span<const int32_t> run, std::vector<float>& out) const {
  if (params_.bad_words.empty()) return;
  std::vector<int32_t> before(tail_);
  before.insert(before.end(), run.begin(), run.end());
  for (const std::vector<int32_t>& word : params_.bad_words) {
    const size_t length = word.size() - 1;
    if (length <= before.size() &&
        std::equal(word.begin(), word.end() - 1, before.end() - static_cast<ptrdiff_t>(length)))
      out[static_cast<size_t>(word.back())] = arith::kNegInf;
  }
}

void Sampler::penalise(std::span<const int32_t> run, std::vector<float>& out) const {
  const auto at = [&out](int32_t id) -> float& { return out[static_cast<size_t>(id)]; };
  std::vector<float> before;  // of the run's tokens, which count too
  before.reserve(run.size());
  for (const int32_t id : run) before.push_back(at(id));
  for (const TokenCounts::Entry& entry : counts_.entries())
    at(entry.id) = penalised(at(entry.id), entry.count);
  for (size_t i = 0; i < run.size(); ++i) {
    const auto in_run = static_cast<int32_t>(std::count(run.begin(), run.end(), run[i]));
    at(run[i]) = penalised(before[i], std::max(counts_.count_of(run[i]), 0) + in_run);
  }
}

// The logit of an id of the prompt or the answer, that came so often in the answer.
float Sampler::penalised(float x, int32_t count) const {
  const Penalties& penalties = params_.penalties;
  x = x > 0 ? x / penalties.repetition : x * penalties.repetition;
  x = arith::fma(-penalties.frequency, static_cast<float>(count), x);
  return count > 0 ? x - penalties.presence : x;
}

}  // namespace stoker::sampling
