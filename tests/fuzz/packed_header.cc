// Any bytes as the header of packed weights, in front of zeros. What is taken is the header that
// these matrices have, and their places are within the bytes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "model/packed_weights.h"
#include "tensor/panels.h"

namespace stoker {
namespace {

// A matrix of each format, and one that may not be packed.
ModelWeights small_weights() {
  static const std::vector<uint8_t> zeros(1 << 16);
  const auto matrix = [](WeightFormat format, int64_t rows, int64_t cols) {
    return Weight{format, rows, cols, zeros.data(), zeros.data()};
  };
  ModelWeights weights;
  weights.head = matrix(WeightFormat::kBf16, 65, 7);
  BlockWeights& block = weights.layers.emplace_back();
  block.hc_attn.fn = matrix(WeightFormat::kF32, 24, 32);
  block.hc_ffn.fn = matrix(WeightFormat::kF32, 24, 33);
  block.attn.wkv = matrix(WeightFormat::kFp8Tile, 64, 64);
  block.ffn.gate_weight = matrix(WeightFormat::kF32, 8, 32);
  block.ffn.shared_experts.w1 = matrix(WeightFormat::kFp4Group, 32, 64);
  return weights;
}

void check_places(const PackedLayout& layout, const std::vector<uint8_t>& packed) {
  ModelWeights weights = layout.weights_in(packed.data());
  for_each_matrix(weights, [&packed](const Weight& weight, bool /*parts*/) {
    if (!is_packed(weight.format)) return;
    const PackedSize size = packed_size(weight.format, weight.rows, weight.cols);
    const uint8_t* const end = packed.data() + packed.size();
    CHECK(weight.data >= packed.data() && end - weight.data >= size.data, "data lie within");
    CHECK(weight.scale == nullptr || end - weight.scale >= size.scale, "scales lie within");
  });
}

}  // namespace
}  // namespace stoker

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): of this function only
  static const ModelWeights weights = small_weights();
  static WorkerPool pool(1);
  static std::vector<uint8_t> packed(static_cast<size_t>(PackedLayout::of(weights, pool).bytes()));
  const size_t used = std::min(size, packed.size());
  std::copy(data, data + used, packed.begin());
  const auto cut = PackedLayout::read({packed.data(), used}, weights);
  CHECK(!cut || used == packed.size(), "all bytes are needed");
  if (const auto layout = PackedLayout::read(packed, weights)) {
    CHECK(layout->bytes() == static_cast<int64_t>(packed.size()), "of this size");
    check_places(*layout, packed);
  }
  std::fill_n(packed.begin(), used, uint8_t{0});
  return 0;
}
