// The residual streams: how they are mixed into the input of a sub-layer and how its output is
// written back.
#include <algorithm>

#include "kernels/hyper_connection.h"
#include "kernels/norm.h"
#include "kernels/products.h"
#include "model/layers.h"
#include "tensor/arith.h"

namespace stoker {

Mixes mixes(Step& step, const Weight& fn, const std::vector<float>& base,
            const std::vector<float>& scale) {
  const ModelConfig& c = step.config();
  const int64_t hc = c.hc_mult;
  const int64_t width = hc * c.hidden_size;
  const int64_t num_coefficients = (2 + hc) * hc;
  const int64_t rows = step.num_rows();
  const Mixes out{step.floats(rows * hc), step.floats(rows * hc), step.floats(rows * hc * hc)};
  const ArenaScope scope(step.work.arena());
  float* m = step.floats(rows * num_coefficients).data();
  kernels::parts_product_of(step.work.bench(), {step.streams.data(), rows, width}, fn, m,
                            num_coefficients);
  const kernels::MixParams params{c.hc_mult, c.hc_sinkhorn_iters, c.hc_eps, scale.data(),
                                  base.data()};
  step.for_each_row([&](int64_t row, int /*worker*/) {
    float* projected = m + row * num_coefficients;
    const float inverse =
        arith::inverse_rms(step.streams.data() + row * width, width, c.rms_norm_eps);
    for (int64_t i = 0; i < num_coefficients; ++i) projected[i] = projected[i] * inverse;
    kernels::mix_coefficients(projected, params, out.pre.data() + row * hc,
                              out.post.data() + row * hc, out.comb.data() + row * hc * hc);
  });
  return out;
}

std::span<float> collapse_and_norm(Step& step, std::span<const float> pre,
                                   const std::vector<float>& norm, std::span<float> collapsed) {
  const ModelConfig& c = step.config();
  const int64_t hidden = c.hidden_size;
  const std::span<float> x = step.floats(step.num_rows() * hidden);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    float* out = x.data() + row * hidden;
    kernels::collapse(step.streams.data() + row * c.hc_mult * hidden, pre.data() + row * c.hc_mult,
                      c.hc_mult, hidden, out);
    if (!collapsed.empty()) std::copy_n(out, hidden, collapsed.data() + row * hidden);
    kernels::rms_norm(out, norm.data(), hidden, c.rms_norm_eps, out);
  });
  return x;
}

void expand(Step& step, std::span<const float> y, const Mixes& mixes) {
  const ModelConfig& c = step.config();
  const int64_t hc = c.hc_mult;
  const int64_t hidden = c.hidden_size;
  step.for_each_row([&](int64_t row, int /*worker*/) {
    kernels::expand(y.data() + row * hidden, mixes.post.data() + row * hc,
                    mixes.comb.data() + row * hc * hc, c.hc_mult, hidden,
                    step.streams.data() + row * hc * hidden);
  });
}

}  // namespace stoker
