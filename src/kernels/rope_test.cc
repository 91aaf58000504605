#include "kernels/rope.h"

#include <gtest/gtest.h>

#include "support/golden.h"

namespace stoker::kernels {
namespace {

using testing::GoldenFile;
using testing::same_bits;

TEST(Rope, FrequenciesAndRotationsOfBothTables) {
  const GoldenFile golden("tests/data/arith/arith.safetensors");
  const Yarn yarn{16, 32, 1, 65536};
  const std::pair<std::string, std::vector<float>> tables[] = {
      {"rotate.window", inverse_frequencies(64, 10000, nullptr)},
      {"rotate.compress", inverse_frequencies(64, 160000, &yarn)},
  };
  for (const auto& [name, frequencies] : tables) {
    EXPECT_TRUE(same_bits(frequencies, golden.f32(name + ".freq"))) << name;
    const auto at = golden.f32(name + ".at");
    for (const bool inverse : {false, true}) {
      auto x = golden.f32(name + ".x");  // [positions, 2, 64]
      std::vector<float> turn(64);
      for (size_t p = 0; p < at.size(); ++p) {
        rotation(static_cast<int64_t>(at[p]), frequencies, turn.data());
        for (size_t row = 0; row < 2; ++row)
          rotate(x.data() + (2 * p + row) * 64, 64, turn.data(), 32, inverse);
      }
      EXPECT_TRUE(same_bits(x, golden.f32(name + (inverse ? ".inverse" : ".out"))))
          << name << inverse;
    }
  }
}

TEST(Rope, OnlyTheTailTurns) {
  const auto frequencies = inverse_frequencies(4, 10000, nullptr);
  float turn[4];
  rotation(3, frequencies, turn);
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  rotate(x, 8, turn, 2, false);
  EXPECT_EQ(x[3], 4.0F);
  EXPECT_NE(x[4], 5.0F);
}

}  // namespace
}  // namespace stoker::kernels
