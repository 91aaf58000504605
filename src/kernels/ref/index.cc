#include "kernels/index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/chain.h"
#include "kernels/panel.h"
#include "tensor/arith.h"
#include "tensor/formats.h"

namespace stoker::kernels {

namespace {

// Keys [0, count) as a panel [dim, kPanel], 0 beyond count.
void decode_panel(const uint8_t* keys, int64_t count, int64_t dim, std::vector<float>& key,
                  std::vector<float>& panel) {
  for (int64_t i = 0; i < kPanel; ++i) {
    if (i < count) {
      decode_index(keys + i * index_record_bytes(dim), dim, key.data());
    } else {
      std::fill(key.begin(), key.end(), 0.0F);
    }
    for (int64_t k = 0; k < dim; ++k)
      panel[static_cast<size_t>(k * kPanel + i)] = key[static_cast<size_t>(k)];
  }
}

// dots [vectors, kPanel] of each of the vectors [vectors, dim] with each key of a panel.
void dot_panel(const float* vectors, int64_t num_vectors, int64_t dim, const float* panel,
               float* dots) {
  for (int64_t first = 0; first < num_vectors; first += kTogether) {
    const float* set[kTogether];
    for (int64_t i = 0; i < kTogether; ++i)
      set[i] = vectors + std::min(first + i, num_vectors - 1) * dim;
    Sums acc = {};
    sum_pairs(set, panel, dim, kFp4Block, acc);
    const int64_t count = std::min(kTogether, num_vectors - first);
    std::copy_n(acc[0], count * kPanel, dots + first * kPanel);
  }
}

// sums [kPanel] of a token: over heads, ascending, weight times what of the dot is positive.
// weights [heads], dots [heads, kPanel].
void weigh_heads(const float* weights, const float* dots, int32_t heads, float* sums) {
  for (int64_t i = 0; i < kPanel; ++i) sums[i] = weights[0] * std::max(dots[i], 0.0F);
  for (int32_t head = 1; head < heads; ++head) {
    const float* dot = dots + head * kPanel;
    for (int64_t i = 0; i < kPanel; ++i)
      sums[i] = arith::fma(weights[head], std::max(dot[i], 0.0F), sums[i]);
  }
}

}  // namespace

void index_scores(const IndexQueries& queries, const uint8_t* keys, int64_t n, float* scores,
                  int64_t stride) {
  const int64_t dim = queries.dim;
  const int64_t num_vectors = queries.rows * queries.heads;
  std::vector<float> key(static_cast<size_t>(dim));
  std::vector<float> panel(static_cast<size_t>(dim * kPanel));
  std::vector<float> dots(static_cast<size_t>(num_vectors * kPanel));
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t count = std::min(kPanel, n - first);
    decode_panel(keys + first * index_record_bytes(dim), count, dim, key, panel);
    dot_panel(queries.q, num_vectors, dim, panel.data(), dots.data());
    for (int64_t row = 0; row < queries.rows; ++row) {
      float sums[kPanel];
      weigh_heads(queries.weights + row * queries.heads, dots.data() + row * queries.heads * kPanel,
                  queries.heads, sums);
      float* out = scores + row * stride + first;
      if (count == kPanel) {
        std::copy_n(sums, kPanel, out);  // of a size that the compiler knows
      } else {
        std::copy_n(sums, count, out);
      }
    }
  }
}

// A score that is not above the k-th best of those before it loses, also when it is equal, since
// its index is larger: so a list of a few times k is enough.
int64_t top_indices(const float* scores, int64_t n, int64_t k, int32_t* list) {
  const auto better = [scores](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  const int64_t full = top_list_size(n, k);
  int64_t count = 0;
  const auto keep_best = [&] {
    std::nth_element(list, list + k, list + count, better);
    count = k;
  };
  float threshold = arith::kNegInf;
  for (int64_t j = 0; j < n; ++j) {
    if (!(scores[j] > threshold)) continue;
    list[count++] = static_cast<int32_t>(j);
    if (count < full || count <= k) continue;
    keep_best();
    threshold = scores[*std::max_element(list, list + count, better)];
  }
  if (count > k) keep_best();
  std::sort(list, list + count);
  return count;
}

int64_t block_maxima(const float* scores, int64_t n, int64_t size, float* best) {
  const int64_t num_blocks = (n + size - 1) / size;
  for (int64_t block = 0; block < num_blocks; ++block) {
    float most = arith::kNegInf;
    for (int64_t j = block * size; j < std::min((block + 1) * size, n); ++j)
      most = scores[j] > most ? scores[j] : most;
    best[block] = most;
  }
  if (num_blocks > 0) best[num_blocks - 1] = std::numeric_limits<float>::infinity();
  return num_blocks;
}

int64_t candidate_blocks(const float* scores, int64_t n, int64_t blocks, int64_t size, float* best,
                         int32_t* list) {
  return top_indices(best, block_maxima(scores, n, size, best), blocks, list);
}

}  // namespace stoker::kernels
