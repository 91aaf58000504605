#include "kernels/hyper_connection.h"

#include <algorithm>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

constexpr int32_t kMaxStreams = 16;
constexpr int64_t kStretch = 64;  // elements of a stream

// Loops over streams are over a constant where that is known: of the released 4 streams a matrix
// then stays in registers.
template <int32_t kStreams>
struct Streams {
  static constexpr int32_t count() { return kStreams; }
};
struct AnyStreams {
  int32_t number;
  int32_t count() const { return number; }
};

// m[j, k] /= (sum over j, ascending) + eps, for each k.
template <class Count>
[[gnu::always_inline]] inline void divide_columns(float* m, Count hc, float eps) {
  float sum[kMaxStreams];
  for (int32_t k = 0; k < hc.count(); ++k) sum[k] = m[k];
  for (int32_t j = 1; j < hc.count(); ++j) {
    for (int32_t k = 0; k < hc.count(); ++k) sum[k] = sum[k] + m[j * hc.count() + k];
  }
  for (int32_t j = 0; j < hc.count(); ++j) {
    for (int32_t k = 0; k < hc.count(); ++k)
      m[j * hc.count() + k] = m[j * hc.count() + k] / (sum[k] + eps);
  }
}

template <class Count>
[[gnu::always_inline]] inline void transpose(const float* m, Count hc, float* out) {
  for (int32_t j = 0; j < hc.count(); ++j) {
    for (int32_t k = 0; k < hc.count(); ++k) out[k * hc.count() + j] = m[j * hc.count() + k];
  }
}

// m[j, k] /= (sum over k, ascending) + eps, for each j.
template <class Count>
[[gnu::always_inline]] inline void divide_rows(float* m, Count hc, float eps) {
  float turned[kMaxStreams * kMaxStreams];
  transpose(m, hc, turned);
  divide_columns(turned, hc, eps);
  transpose(turned, hc, m);
}

// Each row to its softmax, plus eps.
template <class Count>
[[gnu::always_inline]] inline void softmax_rows(float* comb, Count hc, float eps) {
  for (int32_t j = 0; j < hc.count(); ++j) {
    float* row = comb + j * hc.count();
    const float top = *std::max_element(row, row + hc.count());
    for (int32_t k = 0; k < hc.count(); ++k) row[k] = arith::exp(row[k] - top);
  }
  divide_rows(comb, hc, 0.0F);
  for (int32_t i = 0; i < hc.count() * hc.count(); ++i) comb[i] = comb[i] + eps;
}

template <class Count>
[[gnu::always_inline]] inline void balance(float* comb, Count hc, int32_t iterations, float eps) {
  float m[kMaxStreams * kMaxStreams];
  std::copy_n(comb, hc.count() * hc.count(), m);
  softmax_rows(m, hc, eps);
  divide_columns(m, hc, eps);
  for (int32_t i = 1; i < iterations; ++i) {
    divide_rows(m, hc, eps);
    divide_columns(m, hc, eps);
  }
  std::copy_n(m, hc.count() * hc.count(), comb);
}

}  // namespace

void mix_coefficients(const float* m, const MixParams& params, float* pre, float* post,
                      float* comb) {
  const int32_t hc = params.hc;
  const float eps = params.hc_eps;
  for (int32_t k = 0; k < hc; ++k) {
    pre[k] = arith::sigmoid(m[k] * params.scale[0] + params.base[k]) + eps;
    post[k] = 2.0F * arith::sigmoid(m[hc + k] * params.scale[1] + params.base[hc + k]);
  }
  for (int32_t i = 0; i < hc * hc; ++i)
    comb[i] = m[2 * hc + i] * params.scale[2] + params.base[2 * hc + i];
  if (hc == 4) {
    balance(comb, Streams<4>{}, params.sinkhorn_iters, eps);
  } else {
    balance(comb, AnyStreams{hc}, params.sinkhorn_iters, eps);
  }
}

void collapse(const float* streams, const float* pre, int32_t hc, int64_t hidden, float* x) {
  for (int64_t i = 0; i < hidden; ++i) x[i] = pre[0] * streams[i];
  for (int32_t k = 1; k < hc; ++k) {
    const float* stream = streams + k * hidden;
    for (int64_t i = 0; i < hidden; ++i) x[i] = arith::fma(pre[k], stream[i], x[i]);
  }
}

void expand(const float* y, const float* post, const float* comb, int32_t hc, int64_t hidden,
            float* streams) {
  float old[kMaxStreams * kStretch];
  for (int64_t first = 0; first < hidden; first += kStretch) {
    const int64_t count = std::min(kStretch, hidden - first);
    for (int32_t j = 0; j < hc; ++j)
      std::copy_n(streams + j * hidden + first, count, old + j * kStretch);
    for (int32_t k = 0; k < hc; ++k) {
      float sum[kStretch];
      for (int64_t i = 0; i < count; ++i) sum[i] = post[k] * y[first + i];
      for (int32_t j = 0; j < hc; ++j) {
        const float factor = comb[j * hc + k];
        for (int64_t i = 0; i < count; ++i)
          sum[i] = arith::fma(factor, old[j * kStretch + i], sum[i]);
      }
      std::copy_n(sum, count, streams + k * hidden + first);
    }
  }
}

}  // namespace stoker::kernels
