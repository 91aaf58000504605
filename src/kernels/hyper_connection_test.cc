// Hyper-connections, against the formulas element by element.
#include "kernels/hyper_connection.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

std::vector<float> normals(std::mt19937& random, int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(normal(random));
  return out;
}

void expect_same_bits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << ": " << found[i] << ", expected " << expected[i];
  }
}

// comb [hc, hc] of `logits`, as tools/reference/v41/arith.py, sinkhorn.
std::vector<float> doubly_stochastic(std::vector<float> m, int32_t hc, int32_t iterations,
                                     float eps) {
  const auto divide = [&](int32_t step, int32_t along, float extra) {
    for (int32_t line = 0; line < hc; ++line) {
      float sum = m[static_cast<size_t>(line * step)];
      for (int32_t i = 1; i < hc; ++i) sum = sum + m[static_cast<size_t>(line * step + i * along)];
      for (int32_t i = 0; i < hc; ++i) {
        float& value = m[static_cast<size_t>(line * step + i * along)];
        value = value / (sum + extra);
      }
    }
  };
  for (int32_t j = 0; j < hc; ++j) {
    float top = m[static_cast<size_t>(j * hc)];
    for (int32_t k = 0; k < hc; ++k) top = std::max(top, m[static_cast<size_t>(j * hc + k)]);
    for (int32_t k = 0; k < hc; ++k) {
      float& value = m[static_cast<size_t>(j * hc + k)];
      value = arith::exp(value - top);
    }
  }
  divide(hc, 1, 0);
  for (float& value : m) value = value + eps;
  divide(1, hc, eps);
  for (int32_t i = 1; i < iterations; ++i) {
    divide(hc, 1, eps);
    divide(1, hc, eps);
  }
  return m;
}

TEST(HyperConnection, CoefficientsOfAnyNumberOfStreams) {
  std::mt19937 random(5);
  for (const int32_t hc : {1, 2, 3, 4, 5, 16}) {
    const std::vector<float> m = normals(random, (2 + hc) * hc);
    const std::vector<float> base = normals(random, (2 + hc) * hc);
    const float scale[] = {0.5F, 2.0F, 1.5F};
    const MixParams params{hc, 20, 1e-6F, scale, base.data()};
    const auto count = static_cast<size_t>(hc);
    std::vector<float> pre(count), post(count), comb(count * count);
    mix_coefficients(m.data(), params, pre.data(), post.data(), comb.data());
    std::vector<float> expected_pre, expected_post, logits;
    for (size_t k = 0; k < count; ++k) {
      expected_pre.push_back(arith::sigmoid(m[k] * scale[0] + base[k]) + 1e-6F);
      expected_post.push_back(2.0F * arith::sigmoid(m[count + k] * scale[1] + base[count + k]));
    }
    for (size_t i = 2 * count; i < m.size(); ++i) logits.push_back(m[i] * scale[2] + base[i]);
    SCOPED_TRACE(std::to_string(hc) + " streams");
    expect_same_bits(pre, expected_pre);
    expect_same_bits(post, expected_post);
    expect_same_bits(comb, doubly_stochastic(logits, hc, 20, 1e-6F));
  }
}

TEST(HyperConnection, CollapseAndExpandOfAnySize) {
  std::mt19937 random(6);
  for (const int32_t hc : {1, 3, 4, 16}) {
    for (const int64_t hidden : {1, 31, 64, 65, 192}) {
      const std::vector<float> streams = normals(random, hc * hidden);
      const std::vector<float> y = normals(random, hidden);
      const std::vector<float> pre = normals(random, hc);
      const std::vector<float> comb = normals(random, hc * hc);
      std::vector<float> x(static_cast<size_t>(hidden)), expected_x;
      std::vector<float> found = streams;
      std::vector<float> expected(streams.size());
      const auto at = [hidden](int32_t k, int64_t i) {
        return static_cast<size_t>(k * hidden + i);
      };
      for (int64_t i = 0; i < hidden; ++i) {
        float sum = pre[0] * streams[at(0, i)];
        for (int32_t k = 1; k < hc; ++k)
          sum = arith::fma(pre[static_cast<size_t>(k)], streams[at(k, i)], sum);
        expected_x.push_back(sum);
        for (int32_t k = 0; k < hc; ++k) {
          float out = pre[static_cast<size_t>(k)] * y[static_cast<size_t>(i)];
          for (int32_t j = 0; j < hc; ++j)
            out = arith::fma(comb[static_cast<size_t>(j * hc + k)], streams[at(j, i)], out);
          expected[at(k, i)] = out;
        }
      }
      SCOPED_TRACE(std::to_string(hc) + " streams of " + std::to_string(hidden));
      collapse(streams.data(), pre.data(), hc, hidden, x.data());
      expect_same_bits(x, expected_x);
      expand(y.data(), pre.data(), comb.data(), hc, hidden, found.data());
      expect_same_bits(found, expected);
    }
  }
}

}  // namespace
}  // namespace stoker::kernels
