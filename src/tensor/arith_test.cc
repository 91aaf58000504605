// The arithmetic against tests/data/arith (made by tools/reference/make_arith_golden.py), bit for
// bit.
#include "tensor/arith.h"

#include <gtest/gtest.h>

#include "base/worker_pool.h"
#include "support/golden.h"

namespace stoker {
namespace {

using testing::GoldenFile;
using testing::same_bits;

class Arith : public ::testing::Test {
 protected:
  template <class Function>
  void expect_each(const std::string& name, Function function) {
    std::vector<float> out;
    for (const float x : golden_.f32(name + ".x")) out.push_back(function(x));
    EXPECT_TRUE(same_bits(out, golden_.f32(name + ".out"))) << name;
  }

  GoldenFile golden_{"tests/data/arith/arith.safetensors"};
  FlushDenormals flush_;
};

TEST_F(Arith, Exp) {
  expect_each("exp", arith::exp);
}
TEST_F(Arith, Sigmoid) {
  expect_each("sigmoid", arith::sigmoid);
}
TEST_F(Arith, SqrtSoftplus) {
  expect_each("sqrt_softplus", arith::sqrt_softplus);
}
TEST_F(Arith, Log) {
  expect_each("log", arith::log);
}

TEST_F(Arith, LaneDotAndInverseRms) {
  for (const int n : {1, 15, 16, 17, 64, 96, 5120}) {
    const std::string name = "lane_dot." + std::to_string(n);
    const auto a = golden_.f32(name + ".a");
    const auto b = golden_.f32(name + ".b");
    EXPECT_TRUE(same_bits({{arith::lane_dot(a.data(), b.data(), n)}}, golden_.f32(name + ".out")))
        << n;
    const std::string rms = "inverse_rms." + std::to_string(n);
    const auto x = golden_.f32(rms + ".x");
    EXPECT_TRUE(same_bits({{arith::inverse_rms(x.data(), n, 1e-20F)}}, golden_.f32(rms + ".out")))
        << n;
  }
}

TEST_F(Arith, NotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(arith::exp(nan)));
  EXPECT_TRUE(std::isnan(arith::sigmoid(nan)));
  EXPECT_TRUE(std::isnan(arith::sqrt_softplus(nan)));
  EXPECT_EQ(arith::exp(-std::numeric_limits<float>::infinity()), 0.0F);
}

}  // namespace
}  // namespace stoker
