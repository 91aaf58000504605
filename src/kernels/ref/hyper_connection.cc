#include "kernels/hyper_connection.h"

#include <algorithm>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

constexpr int32_t kMaxStreams = 16;

// comb[j, k] /= (sum over k, ascending) + eps, for each j.
void divide_rows(float* comb, int32_t hc, float eps) {
  for (int32_t j = 0; j < hc; ++j) {
    float* row = comb + j * hc;
    float sum = row[0];
    for (int32_t k = 1; k < hc; ++k) sum = sum + row[k];
    for (int32_t k = 0; k < hc; ++k) row[k] = row[k] / (sum + eps);
  }
}

// comb[j, k] /= (sum over j, ascending) + eps, for each k.
void divide_columns(float* comb, int32_t hc, float eps) {
  for (int32_t k = 0; k < hc; ++k) {
    float sum = comb[k];
    for (int32_t j = 1; j < hc; ++j) sum = sum + comb[j * hc + k];
    for (int32_t j = 0; j < hc; ++j) comb[j * hc + k] = comb[j * hc + k] / (sum + eps);
  }
}

// Each row to its softmax, plus eps.
void softmax_rows(float* comb, int32_t hc, float eps) {
  for (int32_t j = 0; j < hc; ++j) {
    float* row = comb + j * hc;
    const float top = *std::max_element(row, row + hc);
    for (int32_t k = 0; k < hc; ++k) row[k] = arith::exp(row[k] - top);
  }
  divide_rows(comb, hc, 0.0F);
  for (int32_t i = 0; i < hc * hc; ++i) comb[i] = comb[i] + eps;
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
  softmax_rows(comb, hc, eps);
  divide_columns(comb, hc, eps);
  for (int32_t i = 1; i < params.sinkhorn_iters; ++i) {
    divide_rows(comb, hc, eps);
    divide_columns(comb, hc, eps);
  }
}

void collapse(const float* streams, const float* pre, int32_t hc, int64_t hidden, float* x) {
  for (int64_t i = 0; i < hidden; ++i) {
    float sum = pre[0] * streams[i];
    for (int32_t k = 1; k < hc; ++k) sum = arith::fma(pre[k], streams[k * hidden + i], sum);
    x[i] = sum;
  }
}

void expand(const float* y, const float* post, const float* comb, int32_t hc, int64_t hidden,
            float* streams) {
  for (int64_t i = 0; i < hidden; ++i) {
    float old[kMaxStreams];
    for (int32_t j = 0; j < hc; ++j) old[j] = streams[j * hidden + i];
    for (int32_t k = 0; k < hc; ++k) {
      float sum = post[k] * y[i];
      for (int32_t j = 0; j < hc; ++j) sum = arith::fma(comb[j * hc + k], old[j], sum);
      streams[k * hidden + i] = sum;
    }
  }
}

}  // namespace stoker::kernels
