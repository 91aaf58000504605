#include "kernels/index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/chain.h"
#include "tensor/arith.h"
#include "tensor/formats.h"

namespace stoker::kernels {

void index_scores(const float* q, const float* weights, int32_t heads, int64_t dim,
                  const uint8_t* keys, int64_t n, float* scores) {
  std::vector<float> key(static_cast<size_t>(dim));
  for (int64_t j = 0; j < n; ++j) {
    decode_index(keys + j * index_record_bytes(dim), dim, key.data());
    float sum = 0;
    for (int32_t head = 0; head < heads; ++head) {
      const float dot = std::max(chain_dot(q + head * dim, key.data(), dim, kFp4Block), 0.0F);
      sum = head == 0 ? weights[head] * dot : arith::fma(weights[head], dot, sum);
    }
    scores[j] = sum;
  }
}

void top_indices(const float* scores, int64_t n, int64_t k, std::vector<int32_t>& chosen) {
  chosen.clear();
  for (int64_t j = 0; j < n; ++j) {
    if (scores[j] > arith::kNegInf) chosen.push_back(static_cast<int32_t>(j));
  }
  if (static_cast<int64_t>(chosen.size()) > k) {
    const auto better = [scores](int32_t a, int32_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    };
    std::nth_element(chosen.begin(), chosen.begin() + k, chosen.end(), better);
    chosen.resize(static_cast<size_t>(k));
    std::sort(chosen.begin(), chosen.end());
  }
}

void candidate_blocks(const float* scores, int64_t n, int64_t blocks, int64_t size,
                      std::vector<int32_t>& chosen) {
  const int64_t num_blocks = (n + size - 1) / size;
  std::vector<float> best(static_cast<size_t>(num_blocks), arith::kNegInf);
  for (int64_t j = 0; j < n; ++j) {
    float& block = best[static_cast<size_t>(j / size)];
    if (scores[j] > block) block = scores[j];
  }
  if (num_blocks > 0) best.back() = std::numeric_limits<float>::infinity();
  top_indices(best.data(), num_blocks, blocks, chosen);
}

}  // namespace stoker::kernels
