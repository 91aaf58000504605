#include "model/model.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/hyper_connection.h"
#include "kernels/norm.h"
#include "kernels/products.h"
#include "kernels/rope.h"
#include "model/layers.h"

namespace stoker {
namespace {

BlockConstants decode_constants(const BlockWeights& w) {
  BlockConstants out;
  out.attn_norm = decode_all(w.attn_norm);
  out.ffn_norm = decode_all(w.ffn_norm);
  out.q_norm = decode_all(w.attn.q_norm);
  out.kv_norm = decode_all(w.attn.kv_norm);
  out.attn_sink = decode_all(w.attn.attn_sink);
  out.compressor_norm = decode_all(w.attn.compressor_norm);
  out.indexer_k_norm = decode_all(w.attn.indexer_k_norm);
  out.gate_bias = decode_all(w.ffn.gate_bias);
  out.hc_attn_base = decode_all(w.hc_attn.base);
  out.hc_attn_scale = decode_all(w.hc_attn.scale);
  out.hc_ffn_base = decode_all(w.hc_ffn.base);
  out.hc_ffn_scale = decode_all(w.hc_ffn.scale);
  if (w.engram.embed) {
    const std::vector<float> k_weight = decode_all(w.engram.k_weight);
    out.engram_weight = decode_all(w.engram.q_weight);
    for (size_t i = 0; i < k_weight.size(); ++i)
      out.engram_weight[i] = out.engram_weight[i] * k_weight[i];
  }
  return out;
}

Result<void> check_token_map(const ModelConfig& c, const std::vector<int32_t>& token_map) {
  if (token_map.size() != static_cast<size_t>(c.vocab_size)) {
    return Error{ErrorCode::kCorruptData,
                 "token map: expected " + std::to_string(c.vocab_size) + " classes, found " +
                     std::to_string(token_map.size()),
                 ""};
  }
  for (const int32_t token_class : token_map) {
    if (token_class < 0 || token_class >= c.engram_compressed_vocab_size) {
      return Error{ErrorCode::kCorruptData,
                   "token map: expected classes below " +
                       std::to_string(c.engram_compressed_vocab_size) + ", found " +
                       std::to_string(token_class),
                   ""};
    }
  }
  return {};
}

ModelParts make_parts(const ModelConfig& c, const ModelWeights& weights,
                      std::vector<int32_t> token_map) {
  ModelParts parts;
  parts.config = &c;
  parts.weights = &weights;
  for (const BlockWeights& block : parts.weights->layers)
    parts.layers.push_back(decode_constants(block));
  parts.norm = decode_all(parts.weights->norm);
  if (c.num_nextn_predict_layers > 0) {
    const DraftWeights& mtp = weights.mtp;
    for (const BlockWeights& stage : mtp.stages) parts.layers.push_back(decode_constants(stage));
    parts.draft = {decode_all(mtp.main_norm), decode_all(mtp.norm),
                   decode_all(mtp.confidence_head_proj)};
  }
  const YarnConfig& scaling = c.rope_scaling;
  const kernels::Yarn yarn{scaling.factor, scaling.beta_fast, scaling.beta_slow,
                           scaling.original_max_position_embeddings};
  parts.freq_window = kernels::inverse_frequencies(c.qk_rope_head_dim, c.rope_theta, nullptr);
  parts.freq_compress = kernels::inverse_frequencies(c.qk_rope_head_dim, c.compress_rope_theta,
                                                     scaling.factor > 0 ? &yarn : nullptr);
  if (!c.engram_layer_ids.empty()) {
    parts.engram_hash.emplace_back(c, token_map[static_cast<size_t>(c.engram_pad_token_id)]);
    parts.token_map = std::move(token_map);
  }
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const auto& sources = c.kv_source_layer_ids;
    const auto found = std::find(sources.begin(), sources.end(), c.kv_source_of(layer));
    parts.source_number.push_back(
        found == sources.end() ? -1 : static_cast<int32_t>(found - sources.begin()));
  }
  return parts;
}

// Room for what index sources choose: no more than the longest sequence has.
void prepare_choice(Step& step) {
  const ModelConfig& c = step.config();
  int64_t longest = 0;
  for (const Row& row : step.rows) longest = std::max(longest, row.position + 1);
  step.max_chosen = c.index_source_layer_ids.empty() ? 0 : std::min<int64_t>(c.index_topk, longest);
  step.max_candidates =
      c.candidate_source_layer_id < 0
          ? 0
          : std::min<int64_t>(c.candidate_topk_blocks, longest / c.candidate_block_size + 1);
  Arena& arena = step.work.arena();
  step.chosen = arena.take<int32_t>(step.num_rows() * step.max_chosen);
  step.num_chosen = arena.take<int32_t>(step.num_rows());
  step.candidates = arena.take<int32_t>(step.num_rows() * step.max_candidates);
  step.num_candidates = arena.take<int32_t>(step.num_rows());
  std::fill(step.num_chosen.begin(), step.num_chosen.end(), 0);
  std::fill(step.num_candidates.begin(), step.num_candidates.end(), 0);
}

// remember(); after the last KV source's, only the rows that run the late layers stay in the step.
// Its own window rows are made before or after that, as the mode of replay has it.
WindowRecords remember_and_trim(Step& step, int32_t layer, std::span<float>& x) {
  const Replay& replay = step.model.replay;
  WindowRecords records = remember(step, layer, x);
  const bool is_gate = replay.mode != ReplayMode::kOff && layer == replay.last_source;
  if (!is_gate) return records;
  const std::span<const int64_t> all_first = records.first_row;
  const std::span<const int64_t> all_rows = records.segment_rows;
  keep_late_rows(step, x);
  if (replay.first_late == layer) {  // rows below the gate have no window row in this layer
    for (size_t s = 0; s < step.segments.size(); ++s) {
      records.first_row[s] = all_first[s] + all_rows[s] - step.segment_rows[s];
      records.segment_rows[s] = step.segment_rows[s];
    }
  }
  if (step.rows.empty()) keep_window(step, layer, records);
  return records;
}

// Logits of the wanted rows.
void head(Step& step, std::span<const float> hidden, std::span<const int64_t> wanted,
          float* logits) {
  const ModelConfig& c = step.config();
  const auto count = static_cast<int64_t>(wanted.size());
  const std::span<int32_t> index = step.work.arena().take<int32_t>(count);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = std::lower_bound(step.number.begin(), step.number.end(), wanted[i]);
    index[i] = static_cast<int32_t>(row - step.number.begin());
  }
  const kernels::Product product{{hidden.data(), step.num_rows(), c.hidden_size},
                                 index.data(),
                                 count,
                                 &step.model.weights->head,
                                 logits,
                                 c.vocab_size};
  kernels::products(step.work.bench(), {&product, 1});
}

// The classes of the tokens before each captured position.
void capture_history(const Step& step, const Segment& segment) {
  const SequenceState& state = *segment.state;
  for (const Capture& capture : segment.captures) {
    for (int32_t back = 1; back <= state.history_size(); ++back) {
      const int64_t position = capture.position - back;
      const int64_t index = position - state.length();
      const int32_t token_class =
          index >= 0
              ? step.model.token_map[static_cast<size_t>(segment.ids[static_cast<size_t>(index)])]
              : state.history(static_cast<int32_t>(-index));
      capture.image.set_history(position, token_class);
    }
  }
}

// Every segment's state now holds its rows.
void commit(const Step& step) {
  for (const Segment& segment : step.segments) {
    capture_history(step, segment);
    SequenceState& state = *segment.state;
    for (size_t i = 0; i < segment.ids.size() && !step.model.token_map.empty(); ++i) {
      state.set_history(state.length() + static_cast<int64_t>(i),
                        step.model.token_map[static_cast<size_t>(segment.ids[i])]);
    }
    state.advance(static_cast<int64_t>(segment.ids.size()));
  }
}

}  // namespace

std::span<int64_t> lengths(Step& step) {
  const std::span<int64_t> out =
      step.work.arena().take<int64_t>(static_cast<int64_t>(step.segments.size()));
  std::ranges::transform(step.segments, out.begin(),
                         [](const Segment& segment) { return segment.state->length(); });
  return out;
}

void number_rows(Step& step, std::span<const int64_t> from) {
  const auto num_segments = static_cast<int64_t>(step.segments.size());
  Arena& arena = step.work.arena();
  step.first_row = arena.take<int64_t>(num_segments);
  step.segment_rows = arena.take<int64_t>(num_segments);
  int64_t num_rows = 0;
  for (size_t s = 0; s < step.segments.size(); ++s) {
    const Segment& segment = step.segments[s];
    step.first_row[s] = num_rows;
    step.segment_rows[s] =
        segment.state->length() + static_cast<int64_t>(segment.ids.size()) - from[s];
    num_rows += step.segment_rows[s];
  }
  step.rows = arena.take<Row>(num_rows);
  step.number = arena.take<int64_t>(num_rows);
  std::iota(step.number.begin(), step.number.end(), 0);
  for (size_t s = 0; s < step.segments.size(); ++s) {
    const int64_t skipped = from[s] - step.segments[s].state->length();
    for (int64_t i = 0; i < step.segment_rows[s]; ++i) {
      step.rows[static_cast<size_t>(step.first_row[s] + i)] = {
          static_cast<int32_t>(s), static_cast<int32_t>(skipped + i), from[s] + i};
    }
  }
}

// The embedding, copied to each stream.
void embed(Step& step) {
  const ModelConfig& c = step.config();
  const int64_t hidden = c.hidden_size;
  const int64_t turn = c.qk_rope_head_dim;
  step.streams = step.floats(step.num_rows() * c.hc_mult * hidden);
  step.pre = step.floats(step.num_rows() * c.hc_mult);
  step.turn_window = step.floats(step.num_rows() * turn);
  step.turn_compress = step.floats(step.num_rows() * turn);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    const Row& at = step.rows[static_cast<size_t>(row)];
    const int32_t id =
        step.segments[static_cast<size_t>(at.segment)].ids[static_cast<size_t>(at.index)];
    float* streams = step.streams.data() + row * c.hc_mult * hidden;
    decode_row(step.model.weights->embed, id, streams);
    for (int32_t k = 1; k < c.hc_mult; ++k) std::copy_n(streams, hidden, streams + k * hidden);
    for (int32_t k = 0; k < c.hc_mult; ++k)
      step.pre[static_cast<size_t>(row * c.hc_mult + k)] = k == 0 ? 1.0F : 0.0F;
    kernels::rotation(at.position, step.model.freq_window, step.turn_window.data() + row * turn);
    kernels::rotation(at.position, step.model.freq_compress,
                      step.turn_compress.data() + row * turn);
  });
}

// Each site's input is mixed with the coefficients that its predecessor made.
void run_block(Step& step, int32_t layer) {
  const BlockWeights& w = step.weights(layer);
  const BlockConstants& constants = step.constants(layer);
  const ArenaScope scope(step.work.arena());
  if (step.config().engram_index_of(layer) >= 0) engram(step, layer);

  step.note_streams(layer, "attn_streams");
  tap(step, layer);
  std::span<float> x = collapse_and_norm(step, step.pre, constants.attn_norm);
  step.note(layer, "attn_in", x);
  const WindowRecords records = remember_and_trim(step, layer, x);
  if (step.rows.empty()) return;
  const Mixes attn = mixes(step, w.hc_attn.fn, constants.hc_attn_base, constants.hc_attn_scale);
  std::span<float> y = attention(step, layer, x, records);
  if (!step.is_draft_stage(layer)) keep_window(step, layer, records);
  step.note(layer, "attn_out", y);
  expand(step, y, attn);

  step.note_streams(layer, "ffn_streams");
  const Mixes ffn = mixes(step, w.hc_ffn.fn, constants.hc_ffn_base, constants.hc_ffn_scale);
  x = collapse_and_norm(step, attn.pre, constants.ffn_norm);
  y = moe(step, layer, x);
  step.note(layer, "ffn_out", y);
  expand(step, y, ffn);
  std::copy(ffn.pre.begin(), ffn.pre.end(), step.pre.begin());
}

std::string trace_name(int32_t layer, const char* point) {
  return "layers." + std::to_string(layer) + "." + point;
}

void Step::note(int32_t layer, const char* point, std::span<const float> values) const {
  if (trace == nullptr) return;
  const size_t width = values.size() / rows.size();
  for (size_t row = 0; row < rows.size(); ++row) {
    trace->note(trace_name(layer, point),
                std::span<const float>(values.data() + row * width, width));
  }
}

std::span<float> lin(Step& step, std::span<const float> x, const Weight& weight) {
  const auto rows = static_cast<int64_t>(x.size()) / weight.cols;
  const std::span<float> y = step.floats(rows * weight.rows);
  kernels::product_of(step.work.bench(), {x.data(), rows, weight.cols}, weight, y.data(),
                      weight.rows);
  return y;
}

std::vector<float> decode_all(const Weight& weight) {
  std::vector<float> out(static_cast<size_t>(weight ? weight.rows * weight.cols : 0));
  for (int64_t row = 0; weight && row < weight.rows; ++row)
    decode_row(weight, row, out.data() + row * weight.cols);
  return out;
}

void keep_late_rows(Step& step, std::span<float>& x) {
  const ArenaScope scope(step.work.arena());
  const std::span<size_t> kept = step.work.arena().take<size_t>(step.num_rows());
  size_t num_kept = 0;
  std::fill(step.segment_rows.begin(), step.segment_rows.end(), 0);
  for (size_t row = 0; row < step.rows.size(); ++row) {
    const Row& at = step.rows[row];
    if (at.position < step.state(at).late_from()) continue;
    const auto segment = static_cast<size_t>(at.segment);
    if (step.segment_rows[segment]++ == 0) step.first_row[segment] = static_cast<int64_t>(num_kept);
    kept[num_kept++] = row;
  }
  if (num_kept == step.rows.size()) return;
  // Rows only move towards the front.
  const auto gather = [&kept, num_kept, num_rows = step.rows.size()](auto& values) {
    const size_t width = values.size() / num_rows;
    for (size_t i = 0; i < num_kept; ++i) {
      if (kept[i] != i) {
        std::copy_n(values.begin() + static_cast<int64_t>(kept[i] * width), width,
                    values.begin() + static_cast<int64_t>(i * width));
      }
    }
    values = values.first(num_kept * width);
  };
  gather(x);
  gather(step.pre);
  gather(step.streams);
  gather(step.turn_window);
  gather(step.turn_compress);
  gather(step.chosen);
  gather(step.num_chosen);
  gather(step.candidates);
  gather(step.num_candidates);
  gather(step.number);
  gather(step.rows);
}

struct Model::State {
  ModelParts parts;
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::create(const ModelConfig& config, const ModelWeights& weights,
                            std::vector<int32_t> token_map, const Replay& replay) {
  if (!config.engram_layer_ids.empty()) {
    if (auto checked = check_token_map(config, token_map); !checked)
      return std::move(checked).error();
  }
  auto state = std::make_unique<State>();
  state->parts = make_parts(config, weights, std::move(token_map));
  state->parts.replay = replay;
  return Model(std::move(state));
}

const ModelConfig& Model::config() const {
  return *state_->parts.config;
}

const Replay& Model::replay() const {
  return state_->parts.replay;
}

std::span<const int32_t> Model::token_map() const {
  return state_->parts.token_map;
}

KvShape kv_shape(const ModelConfig& c, const Replay& replay) {
  const int32_t num_rings = c.num_hidden_layers + c.num_nextn_predict_layers;
  KvShape shape{.num_rings = num_rings,
                .num_early_rings = replay.mode == ReplayMode::kOff ? num_rings : replay.first_late,
                .num_draft_rings = c.num_nextn_predict_layers,
                .max_drafts = c.num_nextn_predict_layers > 0 ? c.dspark_block_size : 0,
                .head_dim = c.head_dim,
                .index_head_dim = c.index_head_dim,
                .window = c.sliding_window,
                .history = c.engram_layer_ids.empty() ? 0 : c.engram_max_ngram_size - 1,
                .sources = {}};
  for (const int32_t layer : c.kv_source_layer_ids) {
    shape.sources.push_back({layer, c.compress_ratios[static_cast<size_t>(layer)]});
  }
  return shape;
}

void Model::forward(Workspace& work, std::span<const Segment> batch,
                    std::span<const int64_t> wanted, float* logits, Trace* trace) const {
  const FlushDenormals flush;
  const ArenaScope scope(work.arena());
  Step step{.model = state_->parts, .work = work, .segments = batch, .trace = trace};
  number_rows(step, lengths(step));
  prepare_choice(step);
  prepare_taps(step);
  read_engram_ahead(step);
  embed(step);
  for (int32_t layer = 0; layer < config().num_hidden_layers && !step.rows.empty(); ++layer)
    run_block(step, layer);
  if (!wanted.empty())
    head(step, collapse_and_norm(step, step.pre, state_->parts.norm), wanted, logits);
  keep_draft_keys(step);
  commit(step);
}

void Model::draft(Workspace& work, std::span<const DraftJob> batch, const PickDraft& pick) const {
  const FlushDenormals flush;
  CHECK(config().num_nextn_predict_layers > 0, "only a model with a draft head drafts");
  const auto part =
      static_cast<size_t>(std::max<int64_t>(1, work.max_rows() / config().dspark_block_size));
  for (size_t first = 0; first < batch.size(); first += part) {
    draft_round(state_->parts, work, batch.subspan(first, std::min(part, batch.size() - first)),
                first, pick);
  }
}

}  // namespace stoker
