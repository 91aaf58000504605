// The scale of a stored block, for the translation units of an instruction set: tensor/formats.h
// has functions that other files share.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// What a ue8m0 byte means; 0 for the denormal, which threads that compute take for zero.
[[gnu::always_inline]] inline float key_scale(uint8_t byte) {
  const uint32_t bits = byte == 255 ? 0x7FC00000U : static_cast<uint32_t>(byte) << 23;
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return scale;
}

}  // namespace stoker::kernels
