// The n-gram memory: rows of a large table, projected, and added to each stream as far as they
// agree with it.
#include "kernels/engram.h"

#include <algorithm>

#include "model/layers.h"

namespace stoker {
namespace {

// Classes of the token at a row and of those before it, newest first.
void classes_at(const Step& step, const Row& row, std::span<int32_t> classes) {
  const Segment& segment = step.segments[static_cast<size_t>(row.segment)];
  for (size_t back = 0; back < classes.size(); ++back) {
    const auto index = row.index - static_cast<int32_t>(back);
    classes[back] =
        index >= 0
            ? step.model.token_map[static_cast<size_t>(segment.ids[static_cast<size_t>(index)])]
            : segment.state->history(-index);
  }
}

}  // namespace

void read_engram_ahead(Step& step) {
  constexpr int64_t kLeastBytes = int64_t{1} << 30;  // smaller tables stay in memory
  const ModelConfig& c = step.config();
  const int64_t columns = c.engram_columns();
  const ArenaScope scope(step.work.arena());
  const int64_t threads = step.work.pool().num_threads();
  const std::span<int64_t> rows = step.work.arena().take<int64_t>(threads * columns);
  const std::span<int32_t> classes =
      step.work.arena().take<int32_t>(threads * c.engram_max_ngram_size);
  for (size_t table = 0; table < c.engram_layer_ids.size(); ++table) {
    const Weight& embed = step.weights(c.engram_layer_ids[table]).engram.embed;
    if (embed.rows * embed.cols < kLeastBytes) continue;
    step.for_each_row([&](int64_t row, int worker) {
      const std::span<int32_t> own =
          classes.subspan(static_cast<size_t>(int64_t{worker} * c.engram_max_ngram_size),
                          static_cast<size_t>(c.engram_max_ngram_size));
      classes_at(step, step.rows[static_cast<size_t>(row)], own);
      int64_t* own_rows = rows.data() + worker * columns;
      step.model.engram_hash[0].rows(table, own, own_rows);
      for (int64_t i = 0; i < columns; ++i) read_row_ahead(embed, own_rows[i]);
    });
  }
}

void engram(Step& step, int32_t layer) {
  const ModelConfig& c = step.config();
  const auto table = static_cast<size_t>(c.engram_index_of(layer));
  const EngramWeights& w = step.weights(layer).engram;
  const int64_t columns = c.engram_columns();
  const int64_t width = columns * c.engram_head_dim;
  const ArenaScope scope(step.work.arena());
  const std::span<int64_t> rows = step.work.arena().take<int64_t>(step.num_rows() * columns);
  const std::span<float> found = step.floats(step.num_rows() * width);
  const std::span<int32_t> classes =
      step.work.arena().take<int32_t>(step.num_rows() * c.engram_max_ngram_size);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    const std::span<int32_t> own =
        classes.subspan(static_cast<size_t>(row * c.engram_max_ngram_size),
                        static_cast<size_t>(c.engram_max_ngram_size));
    classes_at(step, step.rows[static_cast<size_t>(row)], own);
    int64_t* own_rows = rows.data() + row * columns;
    step.model.engram_hash[0].rows(table, own, own_rows);
    for (int64_t i = 0; i < columns; ++i) prefetch_row(w.embed, own_rows[i]);
    for (int64_t i = 0; i < columns; ++i)
      decode_row(w.embed, own_rows[i], found.data() + row * width + i * c.engram_head_dim);
  });
  if (step.trace != nullptr) {
    for (int64_t row = 0; row < step.num_rows(); ++row) {
      step.trace->note_integers(
          trace_name(layer, "engram_rows"),
          std::span<const int64_t>(rows.data() + row * columns, static_cast<size_t>(columns)));
    }
  }
  const std::span<float> kv = lin(step, found, w.wkv);
  const std::vector<float>& weight = step.constants(layer).engram_weight;
  const int64_t streams = int64_t{c.hc_mult} * c.hidden_size;
  step.for_each_row([&](int64_t row, int /*worker*/) {
    const float* keys = kv.data() + row * w.wkv.rows;
    kernels::engram_gate(keys, keys + streams, weight.data(), c.hc_mult, c.hidden_size,
                         c.rms_norm_eps, step.streams.data() + row * streams);
  });
}

}  // namespace stoker
