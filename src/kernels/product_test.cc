// Products against tests/data/arith, whatever the number of rows and threads.
#include "kernels/product.h"

#include <gtest/gtest.h>

#include "kernels/chain.h"
#include "support/golden.h"
#include "tensor/formats.h"

namespace stoker::kernels {
namespace {

using testing::GoldenFile;
using testing::same_bits;

// Golden weights are given as float32; this stores them again in their format, whose codes they
// are.
struct StoredMatrix {
  std::vector<uint8_t> data;
  std::vector<uint8_t> scale;
  Weight weight;
};

std::vector<uint8_t> bytes_of(const std::vector<float>& w) {
  const auto* first = reinterpret_cast<const uint8_t*>(w.data());
  return {first, first + w.size() * sizeof(float)};
}

// Values of a block are code * 2^s; the scale is chosen so that every value is a code.
uint8_t scale_of(const std::vector<float>& w, const std::vector<size_t>& places, float limit) {
  float largest = 0;
  for (const size_t at : places) largest = std::max(largest, std::abs(w[at]));
  return largest == 0 ? uint8_t{127} : ue8m0_at_least(largest / limit);
}

StoredMatrix store_fp8(const std::vector<float>& w, int64_t rows, int64_t cols) {
  StoredMatrix out{std::vector<uint8_t>(w.size()), {}, {}};
  out.scale.resize(static_cast<size_t>(rows / 32 * (cols / 32)));
  for (int64_t tile = 0; tile < rows / 32 * (cols / 32); ++tile) {
    std::vector<size_t> places;
    for (int64_t i = 0; i < 32 * 32; ++i) {
      const int64_t row = tile / (cols / 32) * 32 + i / 32;
      places.push_back(static_cast<size_t>(row * cols + tile % (cols / 32) * 32 + i % 32));
    }
    const uint8_t scale = scale_of(w, places, kE4m3Max);
    out.scale[static_cast<size_t>(tile)] = scale;
    for (const size_t at : places) out.data[at] = e4m3_encode(w[at] / ue8m0_decode(scale));
  }
  out.weight = {WeightFormat::kFp8Tile, rows, cols, out.data.data(), out.scale.data()};
  return out;
}

StoredMatrix store_fp4(const std::vector<float>& w, int64_t rows, int64_t cols) {
  StoredMatrix out{std::vector<uint8_t>(w.size() / 2), std::vector<uint8_t>(w.size() / 32), {}};
  for (size_t group = 0; group < w.size() / 32; ++group) {
    std::vector<size_t> places;
    for (size_t i = 0; i < 32; ++i) places.push_back(group * 32 + i);
    const uint8_t scale = scale_of(w, places, kE2m1Max);
    out.scale[group] = scale;
    for (const size_t at : places) {
      const auto code =
          static_cast<uint8_t>(e2m1_encode(w[at] / ue8m0_decode(scale)) << (at % 2 == 0 ? 0 : 4));
      out.data[at / 2] = static_cast<uint8_t>(out.data[at / 2] | code);
    }
  }
  out.weight = {WeightFormat::kFp4Group, rows, cols, out.data.data(), out.scale.data()};
  return out;
}

StoredMatrix store_bf16(const std::vector<float>& w, int64_t rows, int64_t cols) {
  StoredMatrix out;
  for (const float value : w) {
    out.data.push_back(static_cast<uint8_t>(bf16_encode(value)));
    out.data.push_back(static_cast<uint8_t>(bf16_encode(value) >> 8));
  }
  out.weight = {WeightFormat::kBf16, rows, cols, out.data.data(), nullptr};
  return out;
}

StoredMatrix store_f32(const std::vector<float>& w, int64_t rows, int64_t cols) {
  StoredMatrix out{bytes_of(w), {}, {}};
  out.weight = {WeightFormat::kF32, rows, cols, out.data.data(), nullptr};
  return out;
}

using Product = void (*)(WorkerPool&, Rows, const Weight&, float*, int64_t);

class ProductTest : public ::testing::Test {
 protected:
  void expect_golden(const std::string& name,
                     StoredMatrix (*store)(const std::vector<float>&, int64_t, int64_t),
                     Product multiply) {
    const auto x = golden_.f32(name + ".x");
    const auto x_shape = golden_.shape(name + ".x");
    const auto w_shape = golden_.shape(name + ".w");
    const StoredMatrix w = store(golden_.f32(name + ".w"), w_shape[0], w_shape[1]);
    for (const int threads : {1, 3}) {
      WorkerPool pool(threads);
      std::vector<float> together(static_cast<size_t>(x_shape[0] * w_shape[0]));
      multiply(pool, {x.data(), x_shape[0], x_shape[1]}, w.weight, together.data(), w_shape[0]);
      EXPECT_TRUE(same_bits(together, golden_.f32(name + ".out"))) << name;
      std::vector<float> alone(together.size());
      for (int64_t r = 0; r < x_shape[0]; ++r) {
        multiply(pool, {x.data() + r * x_shape[1], 1, x_shape[1]}, w.weight,
                 alone.data() + r * w_shape[0], w_shape[0]);
      }
      EXPECT_TRUE(same_bits(alone, together)) << name;
    }
  }

  GoldenFile golden_{"tests/data/arith/arith.safetensors"};
  FlushDenormals flush_;
};

TEST_F(ProductTest, EveryFormatInItsOrder) {
  for (const std::string k : {"32", "64", "5120"}) {
    expect_golden("chain_fp8." + k, store_fp8, product);
    expect_golden("chain_fp4." + k, store_fp4, product);
    expect_golden("chain_f32." + k, store_bf16, product);
    expect_golden("chain_f32_parts." + k, store_f32, product_parts);
  }
}

TEST_F(ProductTest, OutputsBeyondAPanelAndStridesAreLeftAlone) {
  WorkerPool pool(2);
  std::vector<float> w(20 * 32, 1.0F);
  const StoredMatrix stored = store_bf16(w, 20, 32);
  const std::vector<float> x(2 * 40, 2.0F);
  std::vector<float> y(2 * 24, -1.0F);
  product(pool, {x.data(), 2, 40}, stored.weight, y.data(), 24);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i % 24 < 20 ? 64.0F : -1.0F);
}

TEST_F(ProductTest, ChainFlushesDenormals) {
  const auto x = golden_.f32("chain_denormal.x");
  const auto w = golden_.f32("chain_denormal.w");
  std::vector<float> out;
  for (int i = 0; i < 4; ++i)
    out.push_back(chain_dot(x.data() + i / 2 * 64, w.data() + i % 2 * 64, 64, kPairBlock));
  EXPECT_TRUE(same_bits(out, golden_.f32("chain_denormal.out")));
}

TEST_F(ProductTest, ChainDotEqualsTheProduct) {
  const auto x = golden_.f32("chain_fp4.64.x");
  const auto w = golden_.f32("chain_fp4.64.w");
  std::vector<float> out;
  for (int r = 0; r < 5; ++r) {
    for (int n = 0; n < 64; ++n)
      out.push_back(chain_dot(x.data() + r * 64, w.data() + n * 64, 64, kFp4Block));
  }
  EXPECT_TRUE(same_bits(out, golden_.f32("chain_fp4.64.out")));
}

TEST_F(ProductTest, MixRows) {
  for (const int n : {1, 2, 7, 130}) {
    const std::string name = "mix_rows." + std::to_string(n);
    const auto p = golden_.f32(name + ".p");
    const auto rows = golden_.f32(name + ".rows");
    std::vector<float> out(4 * 64);
    for (int head = 0; head < 4; ++head)
      mix_rows(p.data() + head * n, rows.data(), n, 64, out.data() + head * 64);
    EXPECT_TRUE(same_bits(out, golden_.f32(name + ".out"))) << n;
  }
}

}  // namespace
}  // namespace stoker::kernels
