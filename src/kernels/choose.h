// The choice of the best scores, as top_indices() and candidate_blocks() of kernels/index.h make
// it, with a level's scan and without an allocation.
#pragma once

#include <cstdint>

#include "kernels/cpu/levels.h"

namespace stoker::kernels {

/// Memory that a choice of k works in, k no more than there are scores.
struct ChoiceScratch {
  float* values = nullptr;    ///< [choice_room(k)]
  int32_t* list = nullptr;    ///< [choice_room(k)]
  int32_t* picked = nullptr;  ///< [choice_room(k)]
};

/// Places of each array of a scratch, for a choice of at most k.
int64_t choice_room(int64_t k);

/// top_indices(): the number, and the indices in out [min(n, k)].
int64_t choose_best(const Kernels& kernels, const float* scores, int64_t n, int64_t k,
                    const ChoiceScratch& scratch, int32_t* out);

/// candidate_blocks(): the number, and the blocks in out [min(ceil(n / size), blocks)]; best
/// [ceil(n / size)] is overwritten.
int64_t choose_blocks(const Kernels& kernels, const float* scores, int64_t n, int64_t blocks,
                      int64_t size, const ChoiceScratch& scratch, float* best, int32_t* out);

}  // namespace stoker::kernels
