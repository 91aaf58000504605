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

}  // namespace

WindowRecords window_records(Step& step, int32_t layer, const std::vector<float>& x) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::vector<float>& norm = step.model.layers[static_cast<size_t>(layer)].kv_norm;
  const std::vector<float>& turns = turns_of(step, layer);
  std::vector<float> kv =
      lin(step, x, step.model.weights->layers[static_cast<size_t>(layer)].attn.wkv);
  WindowRecords records{
      std::vector<uint8_t>(static_cast<size_t>(step.num_rows() * window_record_bytes(dim))),
      step.first_row, step.segment_rows};
  step.pool.run(step.num_rows(), [&](int64_t row, int /*worker*/) {
    float* vector = kv.data() + row * dim;
    kernels::rms_norm(vector, norm.data(), dim, c.rms_norm_eps, vector);
    kernels::rotate(vector, dim, turns.data() + row * 2 * pairs, pairs, false);
    encode_window(vector, dim, records.bytes.data() + row * window_record_bytes(dim));
  });
  return records;
}

namespace {

// The record of a position of a segment, in this step or in the ring; the ring has only the rows
// before the step's.
const uint8_t* window_record(const Step& step, int32_t layer, int32_t segment, int64_t position,
                             const WindowRecords& records) {
  const auto at = static_cast<size_t>(segment);
  const SequenceState& state = *step.segments[at].state;
  const auto end = state.length() + static_cast<int64_t>(step.segments[at].ids.size());
  const int64_t row = records.first_row[at] + position - (end - records.segment_rows[at]);
  if (row >= records.first_row[at])
    return records.bytes.data() + row * window_record_bytes(step.config().head_dim);
  return state.window_row(layer, position);
}

// The first position that has a window row in this layer.
int64_t window_begin(const Step& step, int32_t layer, const SequenceState& state) {
  const Replay& replay = step.model.replay;
  return replay.mode != ReplayMode::kOff && layer >= replay.first_late ? state.late_from() : 0;
}

// The keys of one row in list order: its window by position, then the chosen compressed rows by
// index. [n, dim].
std::vector<float> keys_of(const Step& step, int32_t layer, size_t row,
                           const WindowRecords& records) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const Row& at = step.rows[row];
  const SequenceState& state = step.state(at);
  const int64_t first =
      std::max(at.position - c.sliding_window + 1, window_begin(step, layer, state));
  const int64_t num_window = at.position - first + 1;
  static const std::vector<int32_t> none;
  const bool long_range = c.compress_ratios[static_cast<size_t>(layer)] > 0;
  const std::vector<int32_t>& chosen = long_range ? step.chosen[row] : none;

  std::vector<float> keys((static_cast<size_t>(num_window) + chosen.size()) *
                          static_cast<size_t>(dim));
  float* out = keys.data();
  for (int64_t position = first; position <= at.position; ++position, out += dim) {
    decode_window(window_record(step, layer, at.segment, position, records), dim, out);
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

// Copies the window that ends before each captured position into its image.
void capture_window(const Step& step, int32_t layer, int32_t segment,
                    const WindowRecords& records) {
  const int64_t size = window_record_bytes(step.config().head_dim);
  const SequenceState& state = step.state({segment, 0, 0});
  for (const Capture& capture : step.segments[static_cast<size_t>(segment)].captures) {
    if (capture.image.window_row(layer, 0) == nullptr) continue;
    const int64_t first =
        std::max(capture.position - step.config().sliding_window, window_begin(step, layer, state));
    for (int64_t position = first; position < capture.position; ++position) {
      std::copy_n(window_record(step, layer, segment, position, records), size,
                  capture.image.window_row(layer, position));
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

void keep_window(Step& step, int32_t layer, const WindowRecords& records) {
  const int64_t size = window_record_bytes(step.config().head_dim);
  step.pool.run(static_cast<int64_t>(step.segments.size()), [&](int64_t segment, int /*worker*/) {
    const auto at = static_cast<size_t>(segment);
    capture_window(step, layer, static_cast<int32_t>(segment), records);
    SequenceState& state = *step.segments[at].state;
    const auto end = state.length() + static_cast<int64_t>(step.segments[at].ids.size());
    const int64_t kept = std::min<int64_t>(records.segment_rows[at], step.config().sliding_window);
    const uint8_t* record =
        records.bytes.data() + (records.first_row[at] + records.segment_rows[at] - kept) * size;
    for (int64_t position = end - kept; position < end; ++position, record += size)
      std::copy_n(record, size, state.window_row(layer, position));
  });
}

std::vector<float> attention(Step& step, int32_t layer, const std::vector<float>& x,
                             const WindowRecords& records) {
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
