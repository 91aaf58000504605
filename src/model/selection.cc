// The indexer: which compressed rows a token attends to. Entries are scored in pieces, all of a
// row's scores are kept until its choice, and as many rows go together as their scores have room
// for.
#include <algorithm>
#include <cmath>

#include "kernels/choose.h"
#include "kernels/products.h"
#include "kernels/rope.h"
#include "model/layers.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

constexpr int64_t kGroupRows = 16;       // of a segment, scored together: keys are decoded once
constexpr int64_t kPieceEntries = 1024;  // of a group
constexpr int64_t kMaxScores =
    1 << 19;  // of the rows that go together, or of one row: in the caches

// Rows of one segment that are scored together, and where: the scores of row first + i are at
// scores + i * width.
struct RowGroup {
  int64_t first = 0;
  int64_t count = 0;
  int64_t width = 0;  // entries of the last of them
  int64_t scores = 0;
  int64_t first_piece = 0;
};

// What selection at one layer works on.
struct Selection {
  Step& step;
  int32_t layer = 0;
  size_t source = 0;
  int32_t ratio = 1;
  bool among_candidates = false;
  float* q = nullptr;              // [rows, heads, dim]
  const float* weights = nullptr;  // [rows, heads]
  const float* arranged = nullptr;
  float* scores = nullptr;  // of the rows that go together

  int64_t visible(int64_t row) const {
    return (step.rows[static_cast<size_t>(row)].position + 1) / ratio;
  }
  // Entries that the row chooses among.
  int64_t num_entries(int64_t row) const {
    if (!among_candidates) return visible(row);
    const std::span<const int32_t> blocks = step.candidates_of(row);
    const int64_t size = step.config().candidate_block_size;
    if (blocks.empty()) return 0;
    const int64_t all = static_cast<int64_t>(blocks.size()) * size;
    return all - std::max<int64_t>(0, (int64_t{blocks.back()} + 1) * size - visible(row));
  }
  // The entry at place `i` of the row's. Only the last block can be cut short.
  int64_t entry(int64_t row, int64_t i) const {
    if (!among_candidates) return i;
    const int64_t size = step.config().candidate_block_size;
    return step.candidates_of(row)[static_cast<size_t>(i / size)] * size + i % size;
  }
};

// Rows from `first` on that go together, in groups: the first ones of `groups`.
std::span<const RowGroup> make_groups(const Selection& s, int64_t first, std::span<RowGroup> groups,
                                      int64_t& num_pieces) {
  size_t num_groups = 0;
  int64_t used = 0;
  num_pieces = 0;
  for (int64_t row = first; row < s.step.num_rows();) {
    const int32_t segment = s.step.rows[static_cast<size_t>(row)].segment;
    RowGroup group{row, 1, s.num_entries(row), used, num_pieces};
    while (!s.among_candidates && group.count < kGroupRows &&
           row + group.count < s.step.num_rows() &&
           s.step.rows[static_cast<size_t>(row + group.count)].segment == segment) {
      const int64_t width = s.num_entries(row + group.count);
      if (used + (group.count + 1) * width > kMaxScores) break;
      ++group.count;
      group.width = width;
    }
    if (num_groups > 0 && used + group.count * group.width > kMaxScores) break;
    groups[num_groups++] = group;
    used += group.count * group.width;
    num_pieces += (group.width + kPieceEntries - 1) / kPieceEntries;
    row += group.count;
  }
  return groups.first(num_groups);
}

// Scores of entries [begin, begin + kPieceEntries) of a group.
void score_piece(const Selection& s, const RowGroup& group, int64_t begin, float* scratch) {
  const ModelConfig& c = s.step.config();
  const SequenceState& state = s.step.state(s.step.rows[static_cast<size_t>(group.first)]);
  const int64_t end = std::min(begin + kPieceEntries, group.width);
  const uint8_t* keys[kPieceEntries];
  const int64_t record = index_record_bytes(c.index_head_dim);
  for (int64_t i = begin; i < end;) {  // runs that lie one after the other
    const int64_t entry = s.entry(group.first, i);
    const uint8_t* key = state.index_key(s.source, entry);
    int64_t run = std::min(state.entries_together(s.source, entry), end - i);
    if (s.among_candidates)
      run = std::min(run, c.candidate_block_size - i % c.candidate_block_size);
    for (int64_t j = 0; j < run; ++j, key += record) keys[i++ - begin] = key;
  }
  const int64_t heads = c.index_n_heads;
  kernels::IndexJob job;
  job.q = {s.arranged + group.first * heads * kernels::kRunSteps, s.step.num_rows() * heads,
           group.count * heads, nullptr};
  job.weights = s.weights + group.first * heads;
  job.rows = group.count;
  job.heads = c.index_n_heads;
  job.dim = c.index_head_dim;
  job.keys = keys;
  job.n = end - begin;
  job.scratch = scratch;
  job.scores = s.scores + group.scores + begin;
  job.stride = group.width;
  s.step.work.plan().index_scores->index_scores(job);
}

// What one worker chooses with.
struct Chooser {
  kernels::ChoiceScratch scratch;
  float* best = nullptr;  // [blocks]
};

// Chooses for one row from its scores.
void choose(const Selection& s, int64_t row, const float* scores, const Chooser& with) {
  const ModelConfig& c = s.step.config();
  Step& step = s.step;
  const kernels::Kernels& level = *step.work.plan().rest;
  const int64_t n = s.num_entries(row);
  if (s.layer == c.candidate_source_layer_id) {
    const int64_t count = kernels::choose_blocks(
        level, scores, n, c.candidate_topk_blocks, c.candidate_block_size, with.scratch, with.best,
        step.candidates.data() + row * step.max_candidates);
    step.num_candidates[static_cast<size_t>(row)] = static_cast<int32_t>(count);
  }
  int32_t* chosen = step.chosen.data() + row * step.max_chosen;
  const int64_t count = kernels::choose_best(level, scores, n, c.index_topk, with.scratch, chosen);
  for (int64_t i = 0; i < count; ++i) chosen[i] = static_cast<int32_t>(s.entry(row, chosen[i]));
  step.num_chosen[static_cast<size_t>(row)] = static_cast<int32_t>(count);
}

void trace_row(const Selection& s, int64_t row, const float* scores) {
  std::vector<float> all(static_cast<size_t>(s.visible(row)), arith::kNegInf);
  for (int64_t i = 0; i < s.num_entries(row); ++i)
    all[static_cast<size_t>(s.entry(row, i))] = scores[i];
  s.step.trace->note(trace_name(s.layer, "index_scores"), all);
  s.step.trace->note_integers(trace_name(s.layer, "selected"), s.step.chosen_of(row));
}

// Scores and chooses for all rows.
void run(Selection& s, int64_t max_entries) {
  const ModelConfig& c = s.step.config();
  Arena& arena = s.step.work.arena();
  const int64_t threads = s.step.work.pool().num_threads();
  const std::span<RowGroup> groups = arena.take<RowGroup>(s.step.num_rows());
  const int64_t scratch_floats =
      kernels::index_scratch_floats(kGroupRows, c.index_n_heads, c.index_head_dim);
  const std::span<float> scratch = s.step.floats(threads * scratch_floats);
  // No more than there are.
  const int64_t room = kernels::choice_room(std::max(s.step.max_chosen, s.step.max_candidates));
  const std::span<float> values = s.step.floats(threads * room);
  const std::span<int32_t> lists = arena.take<int32_t>(threads * room);
  const std::span<int32_t> picked = arena.take<int32_t>(threads * room);
  const int64_t num_blocks = max_entries / std::max(c.candidate_block_size, 1) + 1;
  const std::span<float> best = s.step.floats(threads * num_blocks);
  s.scores =
      s.step.floats(std::min(s.step.num_rows() * max_entries, std::max(kMaxScores, max_entries)))
          .data();
  for (int64_t first = 0; first < s.step.num_rows();) {
    int64_t num_pieces = 0;
    const std::span<const RowGroup> made = make_groups(s, first, groups, num_pieces);
    s.step.work.pool().run(num_pieces, [&](int64_t piece, int worker) {
      const RowGroup& group =
          *(std::ranges::upper_bound(made, piece, {}, &RowGroup::first_piece) - 1);
      score_piece(s, group, (piece - group.first_piece) * kPieceEntries,
                  scratch.data() + worker * scratch_floats);
    });
    const int64_t end = made.back().first + made.back().count;
    const auto scores_of = [&](int64_t row) {
      const RowGroup& group = *(std::ranges::upper_bound(made, row, {}, &RowGroup::first) - 1);
      return s.scores + group.scores + (row - group.first) * group.width;
    };
    s.step.work.pool().run(end - first, [&](int64_t i, int worker) {
      const Chooser with{{values.data() + worker * room, lists.data() + worker * room,
                          picked.data() + worker * room},
                         best.data() + worker * num_blocks};
      choose(s, first + i, scores_of(first + i), with);
    });
    for (int64_t row = first; s.step.trace != nullptr && row < end; ++row)
      trace_row(s, row, scores_of(row));
    first = end;
  }
}

// Index queries of every row, rotated and rounded to the keys' format, arranged for the kernels.
std::span<float> arrange_queries(Selection& s) {
  Step& step = s.step;
  const ModelConfig& c = step.config();
  const int64_t dim = c.index_head_dim;
  const int64_t heads = c.index_n_heads;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const int64_t all = step.num_rows() * heads;
  const bool bf16_pairs = step.work.plan().index_scores->bf16_pairs;
  const std::span<float> arranged =
      step.floats(kernels::arranged_floats(WeightFormat::kFp4Panel, bf16_pairs, all, dim));
  const int64_t record_bytes = index_record_bytes(dim);
  const std::span<uint8_t> records =
      step.work.arena().take<uint8_t>(step.work.pool().num_threads() * record_bytes);
  step.work.pool().run(all, [&](int64_t i, int worker) {
    float* vector = s.q + i * dim;
    uint8_t* record = records.data() + worker * record_bytes;
    kernels::rotate(vector, dim, step.turn_compress.data() + i / heads * 2 * pairs, pairs, false);
    encode_index(vector, dim, record);
    decode_index(record, dim, vector);
    kernels::arrange(WeightFormat::kFp4Panel, bf16_pairs, vector, dim, i, all, arranged.data());
  });
  return arranged;
}

}  // namespace

void select(Step& step, int32_t layer, std::span<float> q, std::span<float> weights) {
  const ModelConfig& c = step.config();
  const int64_t width = int64_t{c.index_n_heads} * c.index_head_dim;
  const auto scale = static_cast<float>(std::pow(static_cast<double>(width), -0.5));
  for (float& weight : weights) weight = weight * scale;

  const ArenaScope scope(step.work.arena());
  Selection selection{
      .step = step,
      .layer = layer,
      .source = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]),
      .ratio = step.compress_ratio(layer),
      .among_candidates = c.candidate_source_layer_id >= 0 && layer > c.candidate_source_layer_id,
      .q = q.data(),
      .weights = weights.data()};
  selection.arranged = arrange_queries(selection).data();
  int64_t max_entries = 0;
  for (int64_t row = 0; row < step.num_rows(); ++row)
    max_entries = std::max(max_entries, selection.num_entries(row));
  run(selection, max_entries);
}

}  // namespace stoker
