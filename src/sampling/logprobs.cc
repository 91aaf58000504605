#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/worker_pool.h"
#include "sampling/ranking.h"
#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

// The k first ids of the ranking, in its order.
std::vector<int32_t> first_ids(std::span<const float> logits, float most, size_t k,
                               Scratch& scratch) {
  if (k == 0) return {};
  Listed& list = scratch.list;
  for (const float distance : {3.0F, 9.0F, std::numeric_limits<float>::infinity()}) {
    list_above(logits, surely_below(most, distance), scratch);
    if (list.count >= k) break;
  }
  if (k < list.count) keep_head(end_of_first(k, scratch), list);
  std::vector<int32_t> ids(list.ids.begin(), list.ids.begin() + static_cast<ptrdiff_t>(list.count));
  std::stable_sort(ids.begin(), ids.end(), [logits](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

Error not_finite(std::span<const float> logits) {
  const auto at =
      std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
  return {ErrorCode::kInternal,
          "expected finite logits, found " + std::to_string(*at) + " for token " +
              std::to_string(at - logits.begin()),
          ""};
}

Result<PositionLogprobs> logprobs_of(std::span<const float> logits, int32_t token, int64_t num_top,
                                     Scratch& scratch) {
  const KeepDenormals keep;
  const Scans& scans = *scratch.scans;
  const auto n = static_cast<int64_t>(logits.size());
  const Extent extent = scans.extent(logits.data(), n);
  if (!extent.is_finite) return not_finite(logits);
  const float log_sum = arith::log(scans.exp_sum(logits.data(), n, extent.most));
  const auto logprob_of = [&](int32_t id) {
    return logits[static_cast<size_t>(id)] - extent.most - log_sum;
  };
  const float own = logits[static_cast<size_t>(token)];
  PositionLogprobs out;
  out.logprob = logprob_of(token);
  // Of equal logits, those of lower ids come before it.
  const float just_below = std::nextafter(own, arith::kNegInf);
  out.rank = static_cast<int32_t>(1 + scans.count_above(logits.data(), token, just_below) +
                                  scans.count_above(logits.data() + token, n - token, own));
  const auto k = static_cast<size_t>(std::min(num_top, n));
  for (const int32_t id : first_ids(logits, extent.most, k, scratch))
    out.top.push_back({id, logprob_of(id)});
  return out;
}

}  // namespace stoker::sampling
