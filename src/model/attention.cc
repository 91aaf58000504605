// Attention: each token sees the last `sliding_window` positions as they were, and the compressed
// rows that the indexer picked. Keys are read from the records of the sequence's state, never from
// unrounded values.
#include <algorithm>
#include <cmath>

#include "kernels/norm.h"
#include "kernels/products.h"
#include "kernels/rope.h"
#include "model/layers.h"

namespace stoker {
namespace {

constexpr int64_t kHeadsTogether =
    8;  // of a row, while queries are rotated and outputs turned back

std::span<const float> turns_of(const Step& step, int32_t layer) {
  return step.compress_ratio(layer) > 0 ? step.turn_compress : step.turn_window;
}

// work(row, first head, number of heads) for all heads of all rows, a few heads a piece.
template <class Work>
void for_each_heads(Step& step, const Work& work) {
  const int64_t heads = step.config().num_attention_heads;
  const int64_t groups = (heads + kHeadsTogether - 1) / kHeadsTogether;
  step.work.pool().run(step.num_rows() * groups, [&](int64_t piece, int /*worker*/) {
    const int64_t first = piece % groups * kHeadsTogether;
    work(piece / groups, first, std::min(kHeadsTogether, heads - first));
  });
}

// Projections of the queries: of attention [rows, heads, dim], rotated and rounded to bf16; at an
// index source also of the indexer.
struct Queries {
  std::span<float> q;
  std::span<float> index_q;        // [rows, index heads, index dim]
  std::span<float> index_weights;  // [rows, index heads]
};

Queries queries(Step& step, int32_t layer, std::span<const float> x) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.weights(layer).attn;
  const int64_t rows = step.num_rows();
  const bool is_source = c.is_index_source(layer);
  Queries out;
  out.q = step.floats(rows * w.wq_b.rows);
  out.index_q = step.floats(is_source ? rows * w.indexer_wq_b.rows : 0);
  out.index_weights = step.floats(is_source ? rows * c.index_n_heads : 0);

  const ArenaScope scope(step.work.arena());
  const std::span<float> low = step.floats(rows * c.q_lora_rank);
  const kernels::Rows in{x.data(), rows, c.hidden_size};
  const kernels::Product first[] = {
      {in, nullptr, rows, &w.wq_a, low.data(), c.q_lora_rank},
      {in, nullptr, rows, &w.indexer_weights_proj, out.index_weights.data(), c.index_n_heads}};
  kernels::products(step.work.bench(), std::span(first).first(is_source ? 2 : 1));
  const std::vector<float>& norm = step.constants(layer).q_norm;
  step.for_each_row([&](int64_t row, int /*worker*/) {
    float* vector = low.data() + row * c.q_lora_rank;
    kernels::rms_norm(vector, norm.data(), c.q_lora_rank, c.rms_norm_eps, vector);
  });
  const kernels::Rows narrow{low.data(), rows, c.q_lora_rank};
  const kernels::Product second[] = {
      {narrow, nullptr, rows, &w.wq_b, out.q.data(), w.wq_b.rows},
      {narrow, nullptr, rows, &w.indexer_wq_b, out.index_q.data(), w.indexer_wq_b.rows}};
  kernels::products(step.work.bench(), std::span(second).first(is_source ? 2 : 1));
  return out;
}

void rotate_queries(Step& step, int32_t layer, std::span<float> q) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::span<const float> turns = turns_of(step, layer);
  for_each_heads(step, [&](int64_t row, int64_t head, int64_t count) {
    float* first = q.data() + (row * c.num_attention_heads + head) * dim;
    for (int64_t i = 0; i < count; ++i)
      kernels::rotate(first + i * dim, dim, turns.data() + row * 2 * pairs, pairs, false);
    std::transform(first, first + count * dim, first, bf16_round);
  });
}

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
  if (step.is_draft_stage(layer)) return state.draft_from();
  const Replay& replay = step.model.replay;
  return replay.mode != ReplayMode::kOff && layer >= replay.first_late ? state.late_from() : 0;
}

// Positions whose window rows a row sees: [first, end).
struct Reach {
  int64_t first = 0;
  int64_t end = 0;
};

Reach reach_of(const Step& step, int32_t layer, const Row& at) {
  const SequenceState& state = step.state(at);
  const int64_t window = step.config().sliding_window;
  Reach reach{at.position - window + 1, at.position + 1};
  if (step.is_draft_stage(layer)) {
    const auto& ids = step.segments[static_cast<size_t>(at.segment)].ids;
    reach = {state.length() - window, state.length() + static_cast<int64_t>(ids.size())};
  }
  reach.first = std::max(reach.first, window_begin(step, layer, state));
  return reach;
}

// The most keys that a row of this step has.
int64_t max_keys(const Step& step, int32_t layer) {
  const int64_t others =
      step.is_draft_stage(layer) ? step.config().dspark_block_size : step.max_chosen;
  return step.config().sliding_window + others;
}

// Where the keys of one row are, in list order: its window by position, then the chosen compressed
// rows by index. `places` has room for all.
kernels::KeyRecords keys_of(const Step& step, int32_t layer, int64_t row,
                            const WindowRecords& records, const uint8_t** places) {
  const Row& at = step.rows[static_cast<size_t>(row)];
  const SequenceState& state = step.state(at);
  const Reach reach = reach_of(step, layer, at);
  const int64_t num_window = reach.end - reach.first;
  for (int64_t i = 0; i < num_window; ++i)
    places[i] = window_record(step, layer, at.segment, reach.first + i, records);
  kernels::KeyRecords keys{places, num_window, places + num_window, 0};
  if (step.compress_ratio(layer) > 0) {
    const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
    for (const int64_t entry : step.chosen_of(row))
      places[num_window + keys.num_latents++] = state.latent(number, entry);
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

// Heads of a row that are one piece: all, except where there are few rows.
int64_t heads_of_piece(const Step& step) {
  constexpr int64_t kFewRows = 8;
  constexpr int64_t kFewHeads = 32;  // decoding the keys again for others costs less than waiting
  const int64_t heads = step.config().num_attention_heads;
  return step.num_rows() < kFewRows ? std::min(kFewHeads, heads) : heads;
}

// q [rows, heads, dim] -> what each head mixed from its keys, in out [rows, heads, dim].
void attend(Step& step, int32_t layer, std::span<const float> q, const WindowRecords& records,
            std::span<float> out) {
  const ModelConfig& c = step.config();
  const int64_t heads = c.num_attention_heads;
  const int64_t together = heads_of_piece(step);
  const int64_t groups = (heads + together - 1) / together;
  const int64_t most = max_keys(step, layer);
  const int64_t scratch_floats =
      kernels::attend_scratch_floats(static_cast<int32_t>(together), c.head_dim, most);
  const ArenaScope scope(step.work.arena());
  const int64_t threads = step.work.pool().num_threads();
  const std::span<float> scratch = step.floats(threads * scratch_floats);
  const auto places = step.work.arena().take<const uint8_t*>(threads * most);
  const auto scale = static_cast<float>(std::pow(static_cast<double>(c.head_dim), -0.5));
  const float* sink = step.constants(layer).attn_sink.data();
  step.work.pool().run(step.num_rows() * groups, [&](int64_t piece, int worker) {
    const int64_t row = piece / groups;
    const int64_t head = piece % groups * together;
    kernels::AttendJob job;
    job.q = q.data() + (row * heads + head) * c.head_dim;
    job.keys = keys_of(step, layer, row, records, places.data() + worker * most);
    job.sink = sink + head;
    job.heads = static_cast<int32_t>(std::min(together, heads - head));
    job.dim = c.head_dim;
    job.scale = scale;
    job.scratch = scratch.data() + worker * scratch_floats;
    job.out = out.data() + (row * heads + head) * c.head_dim;
    step.work.plan().rest->attend(job);
  });
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::span<const float> turns = turns_of(step, layer);
  for_each_heads(step, [&](int64_t row, int64_t head, int64_t count) {
    float* first = out.data() + (row * heads + head) * c.head_dim;
    for (int64_t i = 0; i < count; ++i) {
      kernels::rotate(first + i * c.head_dim, c.head_dim, turns.data() + row * 2 * pairs, pairs,
                      true);
    }
  });
}

// out [rows, heads, dim] -> y [rows, hidden]: each group of heads through its own block of wo_a,
// then wo_b.
void project_out(Step& step, const AttentionWeights& w, std::span<const float> out,
                 std::span<float> y) {
  const ModelConfig& c = step.config();
  const int64_t rows = step.num_rows();
  const int64_t groups = c.o_groups;
  const int64_t width = w.wo_a_groups[0].cols;  // heads of a group, one after the other
  const int64_t rank = c.o_lora_rank;
  const ArenaScope scope(step.work.arena());
  const std::span<float> low = step.floats(rows * groups * rank);
  const std::span<kernels::Product> jobs = step.work.arena().take<kernels::Product>(groups);
  for (int64_t group = 0; group < groups; ++group) {
    jobs[static_cast<size_t>(group)] = {{out.data() + group * width, rows, groups * width},
                                        nullptr,
                                        rows,
                                        &w.wo_a_groups[static_cast<size_t>(group)],
                                        low.data() + group * rank,
                                        groups * rank};
  }
  kernels::products(step.work.bench(), jobs);
  kernels::product_of(step.work.bench(), {low.data(), rows, groups * rank}, w.wo_b, y.data(),
                      c.hidden_size);
}

// Projections of a layer's memory, kv [rows, head_dim] turned into records.
void encode_windows(Step& step, int32_t layer, std::span<float> kv, std::span<uint8_t> records) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const std::vector<float>& norm = step.constants(layer).kv_norm;
  const std::span<const float> turns = turns_of(step, layer);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    float* vector = kv.data() + row * dim;
    kernels::rms_norm(vector, norm.data(), dim, c.rms_norm_eps, vector);
    kernels::rotate(vector, dim, turns.data() + row * 2 * pairs, pairs, false);
    encode_window(vector, dim, records.data() + row * window_record_bytes(dim));
  });
}

}  // namespace

WindowRecords remember(Step& step, int32_t layer, std::span<const float> x) {
  const ModelConfig& c = step.config();
  const AttentionWeights& w = step.weights(layer).attn;
  const int64_t rows = step.num_rows();
  const int64_t dim = c.head_dim;
  Arena& arena = step.work.arena();
  const auto num_segments = static_cast<int64_t>(step.segments.size());
  const WindowRecords records{arena.take<uint8_t>(rows * window_record_bytes(dim)),
                              arena.take<int64_t>(num_segments), arena.take<int64_t>(num_segments)};
  std::copy(step.first_row.begin(), step.first_row.end(), records.first_row.begin());
  std::copy(step.segment_rows.begin(), step.segment_rows.end(), records.segment_rows.begin());

  const ArenaScope scope(arena);
  const bool is_source = c.is_kv_source(layer);
  const bool has_gate = is_source && step.compress_ratio(layer) > 1;
  const std::span<float> kv = step.floats(rows * dim);
  const std::span<float> group_kv = step.floats(is_source ? rows * dim : 0);
  const std::span<float> gate = step.floats(has_gate ? rows * dim : 0);
  const kernels::Rows in{x.data(), rows, c.hidden_size};
  const kernels::Product jobs[] = {{in, nullptr, rows, &w.wkv, kv.data(), dim},
                                   {in, nullptr, rows, &w.compressor_wkv, group_kv.data(), dim},
                                   {in, nullptr, rows, &w.compressor_wgate, gate.data(), dim}};
  kernels::products(step.work.bench(), std::span(jobs).first(has_gate ? 3 : (is_source ? 2 : 1)));
  if (is_source) compress(step, layer, group_kv, gate);
  encode_windows(step, layer, kv, records.bytes);
  return records;
}

void keep_window(Step& step, int32_t layer, const WindowRecords& records) {
  const int64_t size = window_record_bytes(step.config().head_dim);
  step.work.pool().run(
      static_cast<int64_t>(step.segments.size()), [&](int64_t segment, int /*worker*/) {
        const auto at = static_cast<size_t>(segment);
        capture_window(step, layer, static_cast<int32_t>(segment), records);
        SequenceState& state = *step.segments[at].state;
        const auto end = state.length() + static_cast<int64_t>(step.segments[at].ids.size());
        const int64_t kept = std::min(records.segment_rows[at], state.num_ring_rows());
        const uint8_t* record =
            records.bytes.data() + (records.first_row[at] + records.segment_rows[at] - kept) * size;
        for (int64_t position = end - kept; position < end; ++position, record += size)
          std::copy_n(record, size, state.window_row(layer, position));
      });
}

std::span<float> attention(Step& step, int32_t layer, std::span<const float> x,
                           const WindowRecords& records) {
  const ModelConfig& c = step.config();
  const std::span<float> y = step.floats(step.num_rows() * c.hidden_size);
  const ArenaScope scope(step.work.arena());
  const Queries q = queries(step, layer, x);
  rotate_queries(step, layer, q.q);
  if (c.is_index_source(layer)) select(step, layer, q.index_q, q.index_weights);
  const std::span<float> out = step.floats(static_cast<int64_t>(q.q.size()));
  attend(step, layer, q.q, records, out);
  project_out(step, step.weights(layer).attn, out, y);
  return y;
}

}  // namespace stoker
