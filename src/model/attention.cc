// Attention: each token sees the last `sliding_window` positions as they were, and the compressed
// rows that the indexer picked. Keys are read from the records of the sequence's state, never from
// unrounded values.
#include <algorithm>

#include "kernels/attend.h"
#include "kernels/norm.h"
#include "kernels/product.h"
#include "kernels/rope.h"
#include "model/layers.h"

namespace stoker {
namespace {

const std::vector<float>& turns_of(const Step& step, int32_t layer) {
  return step.config().compress_ratios[static_cast<size_t>(layer)] > 0 ? step.turn_compress
                                                                       : step.turn_window;
}

// Queries, rotated and rounded to bf16: [rows, heads, dim].
std::vector<float> queries(Step& step, int32_t layer, const std::vector<float>& q_low) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::vector<float>& turns = turns_of(step, layer);
  std::vector<float> q =
      lin(step, q_low, step.model.weights->layers[static_cast<size_t>(layer)].attn.wq_b);
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    float* first = q.data() + row * c.num_attention_heads * dim;
    for (int32_t head = 0; head < c.num_attention_heads; ++head) {
      kernels::rotate(first + head * dim, dim, turns.data() + row * 2 * pairs, pairs, false);
    }
    std::transform(first, first + c.num_attention_heads * dim, first, bf16_round);
  });
  return q;
}

// Window records of this step's rows: [rows, window_record_bytes].
std::vector<uint8_t> window_records(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::vector<float>& norm = step.model.layers[static_cast<size_t>(layer)].kv_norm;
  const std::vector<float>& turns = turns_of(step, layer);
  std::vector<float> kv =
      lin(step, x, step.model.weights->layers[static_cast<size_t>(layer)].attn.wkv);
  std::vector<uint8_t> records(static_cast<size_t>(step.num_rows() * window_record_bytes(dim)));
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    float* vector = kv.data() + row * dim;
    kernels::rms_norm(vector, norm.data(), dim, c.rms_norm_eps, vector);
    kernels::rotate(vector, dim, turns.data() + row * 2 * pairs, pairs, false);
    encode_window(vector, dim, records.data() + row * window_record_bytes(dim));
  });
  return records;
}

// The keys of one row in list order: its window by position, then the chosen compressed rows by
// index. [n, dim].
std::vector<float> keys_of(const Step& step, int32_t layer, size_t row,
                           const std::vector<uint8_t>& records) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const Row& at = step.rows[row];
  const SequenceState& state = step.state(at);
  const int64_t first = std::max<int64_t>(at.position - c.sliding_window + 1, 0);
  const int64_t num_window = at.position - first + 1;
  static const std::vector<int32_t> none;
  const bool long_range = c.compress_ratios[static_cast<size_t>(layer)] > 0;
  const std::vector<int32_t>& chosen = long_range ? step.chosen[row] : none;

  std::vector<float> keys((static_cast<size_t>(num_window) + chosen.size()) *
                          static_cast<size_t>(dim));
  float* out = keys.data();
  for (int64_t position = first; position <= at.position; ++position, out += dim) {
    const int64_t in_step = position - state.length();  // rows of this step are not in the ring yet
    const uint8_t* record =
        in_step >= 0
            ? records.data() + (step.first_row[static_cast<size_t>(at.segment)] + in_step) *
                                   window_record_bytes(dim)
            : state.window_row(layer, position);
    decode_window(record, dim, out);
  }
  if (!chosen.empty()) {
    const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
    for (const int64_t entry : chosen) {
      decode_latent(state.latent(number, entry), dim, out);
      out += dim;
    }
  }
  return keys;
}

// Puts the last rows of each segment into its rings.
void keep_window(Step& step, int32_t layer, const std::vector<uint8_t>& records) {
  const int64_t size = window_record_bytes(step.config().head_dim);
  for (size_t s = 0; s < step.segments.size(); ++s) {
    SequenceState& state = *step.segments[s].state;
    const auto num_rows = static_cast<int64_t>(step.segments[s].ids.size());
    for (int64_t i = std::max<int64_t>(0, num_rows - step.config().sliding_window); i < num_rows;
         ++i) {
      std::copy_n(records.begin() + (step.first_row[s] + i) * size, size,
                  state.window_row(layer, state.length() + i));
    }
  }
}

// out [rows, heads, dim] -> [rows, hidden]: each group of heads through its own block of wo_a, then
// wo_b.
std::vector<float> project_out(Step& step, const AttentionWeights& w,
                               const std::vector<float>& out) {
  const ModelConfig& c = step.config();
  const int64_t width = w.wo_a.cols;  // heads of a group, one after the other
  const int64_t rank = c.o_lora_rank;
  std::vector<float> low(static_cast<size_t>(step.num_rows() * c.o_groups * rank));
  for (int64_t group = 0; group < c.o_groups; ++group) {
    kernels::product(step.pool, {out.data() + group * width, step.num_rows(), c.o_groups * width},
                     rows_of(w.wo_a, group * rank, rank), low.data() + group * rank,
                     c.o_groups * rank);
  }
  return lin(step, low, w.wo_b);
}

}  // namespace

std::vector<float> attention(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.model.weights->layers[static_cast<size_t>(layer)].attn;
  const BlockConstants& constants = step.model.layers[static_cast<size_t>(layer)];
  const int64_t dim = c.head_dim;
  const int64_t width = c.num_attention_heads * dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;

  std::vector<float> q_low = lin(step, x, w.wq_a);
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    float* vector = q_low.data() + row * c.q_lora_rank;
    kernels::rms_norm(vector, constants.q_norm.data(), c.q_lora_rank, c.rms_norm_eps, vector);
  });
  const std::vector<float> q = queries(step, layer, q_low);
  const std::vector<uint8_t> records = window_records(step, layer, x);
  if (c.is_kv_source(layer)) compress(step, layer, x);
  if (c.is_index_source(layer)) select(step, layer, x, q_low);

  const std::vector<float>& turns = turns_of(step, layer);
  std::vector<float> out(static_cast<size_t>(step.num_rows() * width));
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    const std::vector<float> keys = keys_of(step, layer, static_cast<size_t>(row), records);
    std::vector<float> scratch;
    float* mixed = out.data() + row * width;
    kernels::attend(q.data() + row * width, keys.data(), static_cast<int64_t>(keys.size()) / dim,
                    constants.attn_sink.data(), c.num_attention_heads, dim, scratch, mixed);
    for (int32_t head = 0; head < c.num_attention_heads; ++head) {
      kernels::rotate(mixed + head * dim, dim, turns.data() + row * 2 * pairs, pairs, true);
    }
  });
  keep_window(step, layer, records);
  return project_out(step, w, out);
}

}  // namespace stoker
