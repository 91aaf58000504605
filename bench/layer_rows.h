// Rows of kernel_bench about whole matrices: all products of a layer, products beside oneDNN's, and
// how far they are from exact ones.
#pragma once

#include <cstdint>

namespace stoker::bench {

/// Random codes in the order of FP4 panels, which serve as panels of any format.
struct RandomPanels {
  const uint8_t* data = nullptr;    ///< [bytes]
  int64_t bytes = 0;                ///< far beyond the caches
  const uint8_t* scales = nullptr;  ///< of FP8, enough for all of it
};

/// Adds the rows. The panels outlive them.
void add_layer_rows(const RandomPanels& panels);

}  // namespace stoker::bench
