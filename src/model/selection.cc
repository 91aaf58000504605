// Long-range memory: groups of tokens compressed to latents, and the indexer that picks which of
// them a token attends to.
#include <algorithm>
#include <cmath>

#include "kernels/compress.h"
#include "kernels/index.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "model/layers.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

// A group that ended in this step: whose it is, and the position of its first token.
struct Group {
  int32_t segment = 0;
  int64_t position = 0;
};

// Closed groups of a step and their pooled vectors [groups, head_dim].
struct Groups {
  std::vector<Group> groups;
  std::vector<float> latents;
};

// Adds the rows of one segment to its open group; closes groups as they fill. kv, gate [rows of the
// segment, dim].
void close_groups(const Segment& segment, int32_t segment_number, size_t source, int32_t ratio,
                  const float* kv, const float* gate, int64_t dim, Groups& out) {
  SequenceState& state = *segment.state;
  std::vector<float> group_kv(static_cast<size_t>(ratio * dim));
  std::vector<float> group_gate(static_cast<size_t>(ratio * dim));
  int32_t filled = state.num_open(source);
  std::copy_n(state.open_kv(source), filled * dim, group_kv.begin());
  std::copy_n(state.open_gate(source), filled * dim, group_gate.begin());
  const auto num_rows = static_cast<int64_t>(segment.ids.size());
  for (int64_t row = 0; row < num_rows; ++row) {
    std::copy_n(kv + row * dim, dim, group_kv.begin() + filled * dim);
    std::copy_n(gate + row * dim, dim, group_gate.begin() + filled * dim);
    if (++filled < ratio) continue;
    filled = 0;
    const int64_t position = state.length() + row + 1 - ratio;
    if (position < state.shared_until()) continue;  // it is there
    out.groups.push_back({segment_number, position});
    out.latents.resize(out.groups.size() * static_cast<size_t>(dim));
    kernels::pool_group(group_kv.data(), group_gate.data(), ratio, dim,
                        out.latents.data() + (out.groups.size() - 1) * static_cast<size_t>(dim));
  }
  std::copy_n(group_kv.begin(), filled * dim, state.open_kv(source));
  std::copy_n(group_gate.begin(), filled * dim, state.open_gate(source));
}

// The groups that end with the rows of this step and are not in shared blocks, pooled but not yet
// normalised.
Groups pool(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].attn;
  const int64_t dim = c.head_dim;
  Groups out;
  std::vector<float> kv = lin(step, x, w.compressor_wkv);
  if (c.compress_ratios[static_cast<size_t>(layer)] == 1) {  // a group is a token: nothing to weigh
    for (size_t row = 0; row < step.rows.size(); ++row) {
      const Row& at = step.rows[row];
      if (at.position < step.state(at).shared_until()) continue;  // it is there
      out.groups.push_back({at.segment, at.position});
      const auto first = kv.begin() + static_cast<int64_t>(row) * dim;
      out.latents.insert(out.latents.end(), first, first + dim);
    }
    return out;
  }
  const std::vector<float> gate = lin(step, x, w.compressor_wgate);
  const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
  for (size_t s = 0; s < step.segments.size(); ++s) {
    close_groups(step.segments[s], static_cast<int32_t>(s), number,
                 c.compress_ratios[static_cast<size_t>(layer)], kv.data() + step.first_row[s] * dim,
                 gate.data() + step.first_row[s] * dim, dim, out);
  }
  return out;
}

// Rows of one segment that are scored together, and the entries that the last of them sees.
struct RowGroup {
  int64_t first = 0;
  int64_t count = 0;
  int64_t visible = 0;
};

// Groups in the order of the rows. A group decodes each key once; it is not so large that its
// scores leave the caches.
std::vector<RowGroup> row_groups(const Step& step, int32_t ratio) {
  constexpr int64_t kMaxRows = 16;
  constexpr int64_t kMaxScores = int64_t{1} << 18;
  std::vector<RowGroup> groups;
  for (int64_t row = 0; row < step.num_rows(); ++row) {
    const Row& at = step.rows[static_cast<size_t>(row)];
    const int64_t visible = (at.position + 1) / ratio;
    RowGroup* last = groups.empty() ? nullptr : &groups.back();
    const bool fits = last != nullptr && last->count < kMaxRows &&
                      step.rows[static_cast<size_t>(last->first)].segment == at.segment &&
                      (last->count + 1) * visible <= kMaxScores;
    if (!fits) last = &groups.emplace_back(RowGroup{row, 0, 0});
    ++last->count;
    last->visible = visible;
  }
  return groups;
}

// What selection at one layer works on.
struct Selection {
  Step& step;
  int32_t layer = 0;
  size_t source = 0;
  int32_t ratio = 1;
  const float* q = nullptr;                  // [rows, heads, dim]
  const float* weights = nullptr;            // [rows, heads]
  std::vector<std::vector<float>> traced{};  // [rows], where a trace is kept

  kernels::IndexQueries queries(int64_t first, int64_t count) const {
    const ModelConfig& c = step.config();
    return {q + first * c.index_n_heads * c.index_head_dim, weights + first * c.index_n_heads,
            count, c.index_n_heads, c.index_head_dim};
  }
};

// Chooses among all entries that a row can see; at the candidate source also the blocks that later
// layers look at.
void select_among_all(Selection& s, const RowGroup& group) {
  const ModelConfig& c = s.step.config();
  const SequenceState& state = s.step.state(s.step.rows[static_cast<size_t>(group.first)]);
  std::vector<float> scores(static_cast<size_t>(group.count * group.visible));
  for (int64_t entry = 0; entry < group.visible;) {
    const int64_t count = std::min(state.entries_together(s.source, entry), group.visible - entry);
    kernels::index_scores(s.queries(group.first, group.count), state.index_key(s.source, entry),
                          count, scores.data() + entry, group.visible);
    entry += count;
  }
  for (int64_t i = 0; i < group.count; ++i) {
    const auto row = static_cast<size_t>(group.first + i);
    const int64_t visible = (s.step.rows[row].position + 1) / s.ratio;
    const float* own = scores.data() + i * group.visible;
    if (s.layer == c.candidate_source_layer_id) {
      kernels::candidate_blocks(own, visible, c.candidate_topk_blocks, c.candidate_block_size,
                                s.step.candidates[row]);
    }
    kernels::top_indices(own, visible, c.index_topk, s.step.chosen[row]);
    if (!s.traced.empty()) s.traced[row].assign(own, own + visible);
  }
}

// Chooses among the entries of a row's candidate blocks.
void select_among_candidates(Selection& s, int64_t row) {
  const ModelConfig& c = s.step.config();
  const auto at = static_cast<size_t>(row);
  const int64_t visible = (s.step.rows[at].position + 1) / s.ratio;
  const SequenceState& state = s.step.state(s.step.rows[at]);
  const auto record = static_cast<size_t>(index_record_bytes(c.index_head_dim));
  const size_t most =
      static_cast<size_t>(c.candidate_topk_blocks) * static_cast<size_t>(c.candidate_block_size);
  std::vector<int32_t> entries;
  std::vector<uint8_t> keys;  // theirs, one after the other
  entries.reserve(most);
  keys.reserve(most * record);
  for (const int64_t block : s.step.candidates[at]) {
    const int64_t begin = std::min(block * c.candidate_block_size, visible);
    const int64_t end = std::min(begin + c.candidate_block_size, visible);
    for (int64_t entry = begin; entry < end;) {
      const auto count =
          static_cast<size_t>(std::min(state.entries_together(s.source, entry), end - entry));
      const uint8_t* first = state.index_key(s.source, entry);
      keys.insert(keys.end(), first, first + count * record);
      for (size_t i = 0; i < count; ++i) entries.push_back(static_cast<int32_t>(entry++));
    }
  }
  std::vector<float> scores(entries.size());
  kernels::index_scores(s.queries(row, 1), keys.data(), static_cast<int64_t>(entries.size()),
                        scores.data(), static_cast<int64_t>(scores.size()));
  std::vector<int32_t>& chosen = s.step.chosen[at];
  kernels::top_indices(scores.data(), static_cast<int64_t>(scores.size()), c.index_topk, chosen);
  for (int32_t& index : chosen) index = entries[static_cast<size_t>(index)];
  if (s.traced.empty()) return;
  s.traced[at].assign(static_cast<size_t>(visible), arith::kNegInf);
  for (size_t i = 0; i < entries.size(); ++i)
    s.traced[at][static_cast<size_t>(entries[i])] = scores[i];
}

// Index queries of every row, rotated and rounded to the keys' format: [rows, heads, dim].
std::vector<float> index_queries(Step& step, const Weight& wq_b, const std::vector<float>& q_low) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.index_head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  std::vector<float> q = lin(step, q_low, wq_b);
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    std::vector<uint8_t> record(static_cast<size_t>(index_record_bytes(dim)));
    for (int64_t head = 0; head < c.index_n_heads; ++head) {
      float* vector = q.data() + (row * c.index_n_heads + head) * dim;
      kernels::rotate(vector, dim, step.turn_compress.data() + row * 2 * pairs, pairs, false);
      encode_index(vector, dim, record.data());
      decode_index(record.data(), dim, vector);
    }
  });
  return q;
}

}  // namespace

void compress(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].attn;
  const BlockConstants& constants = step.model.layers[static_cast<size_t>(layer)];
  const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
  const int64_t dim = c.head_dim;
  const int64_t key_dim = c.index_head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;

  Groups pooled = pool(step, layer, x);
  for (size_t i = 0; i < pooled.groups.size(); ++i) {
    float* latent = pooled.latents.data() + i * static_cast<size_t>(dim);
    kernels::rms_norm(latent, constants.compressor_norm.data(), dim, c.rms_norm_eps, latent);
  }
  std::vector<float> keys =
      lin(step, pooled.latents, w.indexer_wk);  // from the latents before they are rotated
  std::vector<float> turn(static_cast<size_t>(2 * pairs));
  for (size_t i = 0; i < pooled.groups.size(); ++i) {
    const Group& group = pooled.groups[i];
    SequenceState& state = *step.segments[static_cast<size_t>(group.segment)].state;
    const int64_t entry = group.position / c.compress_ratios[static_cast<size_t>(layer)];
    kernels::rotation(group.position, step.model.freq_compress, turn.data());

    float* key = keys.data() + i * static_cast<size_t>(key_dim);
    kernels::rms_norm(key, constants.indexer_k_norm.data(), key_dim, c.rms_norm_eps, key);
    kernels::rotate(key, key_dim, turn.data(), pairs, false);
    encode_index(key, key_dim, state.index_key(number, entry));

    float* latent = pooled.latents.data() + i * static_cast<size_t>(dim);
    kernels::rotate(latent, dim, turn.data(), pairs, false);
    encode_latent(latent, dim, state.latent(number, entry));
  }
}

void select(Step& step, int32_t layer, const std::vector<float>& x,
            const std::vector<float>& q_low) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].attn;
  const int64_t heads = c.index_n_heads;
  const int64_t width = heads * c.index_head_dim;
  const std::vector<float> q = index_queries(step, w.indexer_wq_b, q_low);
  std::vector<float> weights = lin(step, x, w.indexer_weights_proj);
  const auto scale = static_cast<float>(std::pow(static_cast<double>(width), -0.5));
  for (float& weight : weights) weight = weight * scale;

  const int32_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
  Selection selection{
      .step = step,
      .layer = layer,
      .source = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]),
      .ratio = ratio,
      .q = q.data(),
      .weights = weights.data()};
  if (step.trace != nullptr) selection.traced.resize(step.rows.size());
  if (c.candidate_source_layer_id >= 0 && layer > c.candidate_source_layer_id) {
    step.pool.run(step.num_rows(), [&selection](int64_t row, int /*worker*/) {
      select_among_candidates(selection, row);
    });
  } else {
    const std::vector<RowGroup> groups = row_groups(step, ratio);
    step.pool.run(static_cast<int64_t>(groups.size()), [&](int64_t group, int /*worker*/) {
      select_among_all(selection, groups[static_cast<size_t>(group)]);
    });
  }
  for (size_t row = 0; row < selection.traced.size(); ++row) {
    step.trace->note(trace_name(layer, "index_scores"), selection.traced[row]);
    step.trace->note_integers(trace_name(layer, "selected"),
                              std::span<const int32_t>(step.chosen[row]));
  }
}

}  // namespace stoker
