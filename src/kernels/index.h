// The indexer: scores of compressed rows, and the choice of those that a token attends to.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// The tokens whose keys are scored together. q [rows, heads, dim] (dim a multiple of 32), exact in
/// bf16; weights [rows, heads].
struct IndexQueries {
  const float* q = nullptr;
  const float* weights = nullptr;
  int64_t rows = 0;
  int32_t heads = 0;
  int64_t dim = 0;
};

/// Scores against n index keys: scores[r * stride + j] = sum over heads of weight[r, h] * max(q[r,
/// h] . key j, 0), heads ascending. keys: n index records, one after the other. Source:
/// tools/reference/v41/model.py, Model.select.
void index_scores(const IndexQueries& queries, const uint8_t* keys, int64_t n, float* scores,
                  int64_t stride);

/// Places that top_indices() needs for n scores.
constexpr int64_t top_list_size(int64_t n, int64_t k) {
  return n < 4 * k + 64 ? n : 4 * k + 64;
}

/// Indices of the k largest scores that are neither -inf nor NaN, ascending; of equal scores the
/// lower index wins. scores [n] -> their number; they are at the front of list
/// [top_list_size(n, k)], all of which is overwritten. Source: tools/reference/v41/model.py,
/// top_indices.
int64_t top_indices(const float* scores, int64_t n, int64_t k, int32_t* list);

/// What blocks of `size` entries are chosen by: the best score of each, and infinity for the last
/// one, which has the newest entry. scores [n] -> best [ceil(n / size)]; their number.
int64_t block_maxima(const float* scores, int64_t n, int64_t size, float* best);

/// The blocks of `size` entries among which a token's later selections stay: the `blocks` best by
/// their best score, the one with the newest of the n visible entries always among them. scores [n]
/// -> their number; ids, ascending, are at the front of list [top_list_size(num, blocks)], best
/// [num] is overwritten, for num = ceil(n / size). Source: tools/reference/v41/model.py,
/// candidate_mask.
int64_t candidate_blocks(const float* scores, int64_t n, int64_t blocks, int64_t size, float* best,
                         int32_t* list);

}  // namespace stoker::kernels
