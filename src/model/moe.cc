// The mixture of experts. Rows are grouped by expert, so that each expert's weights are read once a
// step; what a row gets from its experts is kept apart and added in ascending expert id, the shared
// expert last.
#include "kernels/moe.h"

#include <algorithm>

#include "kernels/products.h"
#include "model/layers.h"

namespace stoker {
namespace {

// Which experts each row goes to, and the places (row, slot) in the order of the experts.
struct Routes {
  std::span<int32_t> ids;    // [rows, top_k], ascending in a row
  std::span<float> weights;  // [rows, top_k]
  std::span<int32_t> first;  // [experts + 1]: an expert's places are [first[e], first[e + 1])
  std::span<int32_t> row;    // [places]
  std::span<float> weight;   // [places]
  std::span<int32_t> place;  // [rows, top_k]: where that one is
  std::span<int32_t> self;   // [places]: 0, 1, 2, ..
};

kernels::RouteParams route_params(const Step& step, int32_t layer) {
  const ModelConfig& c = step.config();
  constexpr kernels::Scoring kScoring[] = {
      kernels::Scoring::kSqrtSoftplus, kernels::Scoring::kSigmoid,
      kernels::Scoring::kSoftmax};  // in the order of ScoringFunc
  return {static_cast<int32_t>(step.weights(layer).ffn.experts.size()),
          static_cast<int32_t>(step.top_k(layer)),
          kScoring[static_cast<size_t>(c.scoring_func)],
          c.gate_temp,
          c.norm_topk_prob,
          c.routed_scaling_factor,
          step.constants(layer).gate_bias.data()};
}

void choose_experts(Step& step, int32_t layer, std::span<const float> x, const Routes& routes) {
  const int64_t top_k = step.top_k(layer);
  const kernels::RouteParams params = route_params(step, layer);
  const int64_t experts = params.num_experts;
  const ArenaScope scope(step.work.arena());
  const std::span<float> logits = lin(step, x, step.weights(layer).ffn.gate_weight);
  const std::span<int32_t> scratch =
      step.work.arena().take<int32_t>(step.work.pool().num_threads() * experts);
  step.for_each_row([&](int64_t row, int worker) {
    kernels::route(logits.data() + row * experts, params, scratch.data() + worker * experts,
                   routes.ids.data() + row * top_k, routes.weights.data() + row * top_k);
  });
}

// Counting sort of the places by expert; rows stay in order.
void sort_places(const Routes& routes, int64_t top_k) {
  std::fill(routes.first.begin(), routes.first.end(), 0);
  for (const int32_t id : routes.ids) ++routes.first[static_cast<size_t>(id) + 1];
  for (size_t e = 1; e < routes.first.size(); ++e) routes.first[e] += routes.first[e - 1];
  for (size_t i = 0; i < routes.ids.size(); ++i) {
    const auto at = static_cast<size_t>(routes.first[static_cast<size_t>(routes.ids[i])]++);
    routes.row[at] = static_cast<int32_t>(static_cast<int64_t>(i) / top_k);
    routes.weight[at] = routes.weights[i];
    routes.place[i] = static_cast<int32_t>(at);
    routes.self[at] = static_cast<int32_t>(at);
  }
  // Each now stands where the next expert begins.
  for (size_t e = routes.first.size() - 1; e > 0; --e) routes.first[e] = routes.first[e - 1];
  routes.first[0] = 0;
}

Routes route(Step& step, int32_t layer, std::span<const float> x) {
  const int64_t top_k = step.top_k(layer);
  const int64_t places = step.num_rows() * top_k;
  const auto num_experts = static_cast<int64_t>(step.weights(layer).ffn.experts.size());
  Arena& arena = step.work.arena();
  const Routes routes{
      arena.take<int32_t>(places), arena.take<float>(places), arena.take<int32_t>(num_experts + 1),
      arena.take<int32_t>(places), arena.take<float>(places), arena.take<int32_t>(places),
      arena.take<int32_t>(places)};
  choose_experts(step, layer, x, routes);
  sort_places(routes, top_k);
  if (step.trace != nullptr) {
    for (int64_t row = 0; row < step.num_rows(); ++row) {
      step.trace->note_integers(
          trace_name(layer, "routes"),
          std::span<const int32_t>(routes.ids.data() + row * top_k, static_cast<size_t>(top_k)));
    }
  }
  return routes;
}

// What the experts work on, places first, then the rows of the shared expert.
struct Hidden {
  float* gate = nullptr;  // [places + rows, width]
  float* up = nullptr;
  float* out = nullptr;  // [places + rows, hidden]
};

// gate and up of every place and of the shared expert.
void expand_all(Step& step, const MoeWeights& w, std::span<const float> x, const Routes& routes,
                const Hidden& h) {
  const ModelConfig& c = step.config();
  const int64_t width = c.moe_intermediate_size;
  const kernels::Rows rows{x.data(), step.num_rows(), c.hidden_size};
  const std::span<kernels::Product> jobs =
      step.work.arena().take<kernels::Product>(2 * static_cast<int64_t>(w.experts.size() + 1));
  size_t n = 0;
  for (size_t e = 0; e < w.experts.size(); ++e) {
    const int64_t first = routes.first[e];
    const int64_t count = routes.first[e + 1] - first;
    if (count == 0) continue;
    const int32_t* index = routes.row.data() + first;
    jobs[n++] = {rows, index, count, &w.experts[e].w1, h.gate + first * width, width};
    jobs[n++] = {rows, index, count, &w.experts[e].w3, h.up + first * width, width};
  }
  const auto first = static_cast<int64_t>(routes.ids.size());
  jobs[n++] = {rows, nullptr, rows.count, &w.shared_experts.w1, h.gate + first * width, width};
  jobs[n++] = {rows, nullptr, rows.count, &w.shared_experts.w3, h.up + first * width, width};
  kernels::products(step.work.bench(), jobs.first(n));
}

void reduce_all(Step& step, const MoeWeights& w, const Routes& routes, const Hidden& h) {
  const ModelConfig& c = step.config();
  const int64_t width = c.moe_intermediate_size;
  const int64_t hidden = c.hidden_size;
  const auto places = static_cast<int64_t>(routes.ids.size());
  const std::span<kernels::Product> jobs =
      step.work.arena().take<kernels::Product>(static_cast<int64_t>(w.experts.size() + 1));
  size_t n = 0;
  for (size_t e = 0; e < w.experts.size(); ++e) {
    const int64_t first = routes.first[e];
    const int64_t count = routes.first[e + 1] - first;
    if (count == 0) continue;
    jobs[n++] = {{h.gate, places, width}, routes.self.data() + first, count,
                 &w.experts[e].w2,        h.out + first * hidden,     hidden};
  }
  const int64_t rows = step.num_rows();
  jobs[n++] = {{h.gate + places * width, rows, width},
               nullptr,
               rows,
               &w.shared_experts.w2,
               h.out + places * hidden,
               hidden};
  kernels::products(step.work.bench(), jobs.first(n));
}

}  // namespace

std::span<float> moe(Step& step, int32_t layer, std::span<const float> x) {
  const ModelConfig& c = step.config();
  const MoeWeights& w = step.weights(layer).ffn;
  const int64_t hidden = c.hidden_size;
  const int64_t width = c.moe_intermediate_size;
  const int64_t top_k = step.top_k(layer);
  const int64_t places = step.num_rows() * top_k;
  const std::span<float> y = step.floats(step.num_rows() * hidden);

  const ArenaScope scope(step.work.arena());
  const Routes routes = route(step, layer, x);
  const int64_t all = places + step.num_rows();
  const Hidden h{step.floats(all * width).data(), step.floats(all * width).data(),
                 step.floats(all * hidden).data()};
  expand_all(step, w, x, routes, h);
  const kernels::Kernels& level = *step.work.plan().rest;
  step.work.pool().run(all, [&](int64_t i, int /*worker*/) {
    const float* scale = i < places ? &routes.weight[static_cast<size_t>(i)] : nullptr;
    float* gate = h.gate + i * width;
    level.swiglu(gate, h.up + i * width, width, c.swiglu_limit, scale, gate);
  });
  reduce_all(step, w, routes, h);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    const int32_t* place = routes.place.data() + row * top_k;
    float* out = y.data() + row * hidden;
    std::copy_n(h.out + place[0] * hidden, hidden, out);
    for (int64_t slot = 1; slot < top_k; ++slot) {
      const float* part = h.out + place[slot] * hidden;
      for (int64_t i = 0; i < hidden; ++i) out[i] = out[i] + part[i];
    }
    const float* shared = h.out + (places + row) * hidden;
    for (int64_t i = 0; i < hidden; ++i) out[i] = out[i] + shared[i];
  });
  return y;
}

}  // namespace stoker
