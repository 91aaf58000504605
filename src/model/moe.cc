// The mixture of experts. Rows are grouped by expert, so that each expert's weights are read once a
// step; what a row gets from its experts is kept apart and added in ascending expert id, the shared
// expert last.
#include "kernels/moe.h"

#include <algorithm>

#include "kernels/product.h"
#include "model/layers.h"

namespace stoker {
namespace {

// Which experts each row goes to.
struct Routes {
  std::vector<int32_t> ids;    // [rows, top_k], ascending in a row
  std::vector<float> weights;  // [rows, top_k]
};

Routes route(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const MoeWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].ffn;
  const int64_t top_k = c.num_experts_per_tok;
  std::vector<float> logits = lin(step, x, w.gate_weight);
  constexpr kernels::Scoring kScoring[] = {
      kernels::Scoring::kSqrtSoftplus, kernels::Scoring::kSigmoid,
      kernels::Scoring::kSoftmax};  // in the order of ScoringFunc
  const kernels::RouteParams params{c.n_routed_experts,
                                    c.num_experts_per_tok,
                                    kScoring[static_cast<size_t>(c.scoring_func)],
                                    c.gate_temp,
                                    c.norm_topk_prob,
                                    c.routed_scaling_factor,
                                    step.model.layers[static_cast<size_t>(layer)].gate_bias.data()};
  Routes routes{std::vector<int32_t>(static_cast<size_t>(step.num_rows() * top_k)),
                std::vector<float>(static_cast<size_t>(step.num_rows() * top_k))};
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    std::vector<int32_t> scratch;
    kernels::route(logits.data() + row * c.n_routed_experts, params, scratch,
                   routes.ids.data() + row * top_k, routes.weights.data() + row * top_k);
  });
  if (step.trace != nullptr) {
    for (int64_t row = 0; row < step.num_rows(); ++row) {
      step.trace->note_integers(
          trace_name(layer, "routes"),
          std::span<const int32_t>(routes.ids.data() + row * top_k, static_cast<size_t>(top_k)));
    }
  }
  return routes;
}

// x [n, hidden] through one expert; scales [n] or empty -> [n, hidden].
std::vector<float> expert(Step& step, const ExpertWeights& w, const std::vector<float>& x,
                          const std::vector<float>& scales) {
  const int64_t width = w.w1.rows;
  const auto n = static_cast<int64_t>(x.size()) / w.w1.cols;
  std::vector<float> gate = lin(step, x, w.w1);
  const std::vector<float> up = lin(step, x, w.w3);
  step.pool.run(n, [&](int64_t row, int /*worker*/) {
    const float* scale = scales.empty() ? nullptr : &scales[static_cast<size_t>(row)];
    float* hidden = gate.data() + row * width;
    kernels::swiglu(hidden, up.data() + row * width, width, step.config().swiglu_limit, scale,
                    hidden);
  });
  return lin(step, gate, w.w2);
}

}  // namespace

std::vector<float> moe(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const MoeWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].ffn;
  const int64_t hidden = c.hidden_size;
  const int64_t top_k = c.num_experts_per_tok;
  const Routes routes = route(step, layer, x);
  std::vector<std::vector<int64_t>> places(
      static_cast<size_t>(c.n_routed_experts));  // (row, slot) pairs of an expert
  for (size_t i = 0; i < routes.ids.size(); ++i)
    places[static_cast<size_t>(routes.ids[i])].push_back(static_cast<int64_t>(i));

  std::vector<float> parts(
      static_cast<size_t>(step.num_rows() * top_k * hidden));  // [rows, top_k, hidden]
  for (size_t e = 0; e < places.size(); ++e) {
    if (places[e].empty()) continue;
    std::vector<float> gathered;
    std::vector<float> scales;
    for (const int64_t place : places[e]) {
      const auto row = x.begin() + place / top_k * hidden;
      gathered.insert(gathered.end(), row, row + hidden);
      scales.push_back(routes.weights[static_cast<size_t>(place)]);
    }
    const std::vector<float> out = expert(step, w.experts[e], gathered, scales);
    for (size_t i = 0; i < places[e].size(); ++i) {
      std::copy_n(out.begin() + static_cast<int64_t>(i) * hidden, hidden,
                  parts.begin() + places[e][i] * hidden);
    }
  }

  std::vector<float> y = expert(step, w.shared_experts, x, {});
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    const float* part = parts.data() + row * top_k * hidden;
    for (int64_t i = 0; i < hidden; ++i) {
      float sum = part[i];
      for (int64_t slot = 1; slot < top_k; ++slot) sum = sum + part[slot * hidden + i];
      float& out = y[static_cast<size_t>(row * hidden + i)];
      out = sum + out;
    }
  });
  return y;
}

}  // namespace stoker
