// Pooling of a group of tokens into one latent.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// One group: kv and gate [ratio, dim] -> out [dim]. Each channel has its own softmax over the
/// group's tokens. Source: tools/reference/v41/model.py, Model.compress.
void pool_group(const float* kv, const float* gate, int32_t ratio, int64_t dim, float* out);

}  // namespace stoker::kernels
