// Long-range memory: groups of tokens compressed to latents, with a key for the indexer each.
#include "kernels/compress.h"

#include <algorithm>

#include "kernels/norm.h"
#include "kernels/rope.h"
#include "model/layers.h"

namespace stoker {
namespace {

// A group that ended in this step: whose it is, and the position of its first token.
struct Group {
  int32_t segment = 0;
  int64_t position = 0;
};

// Closed groups of a step and their pooled vectors [groups, head_dim]; room for one a row.
struct Groups {
  std::span<Group> groups;
  std::span<float> latents;
  int64_t count = 0;
};

// Keeps the last of a segment's rows, as far as groups may still be open with them.
void keep_open_rows(const Segment& segment, size_t source, const float* kv, const float* gate,
                    int64_t dim) {
  SequenceState& state = *segment.state;
  const auto num_rows = static_cast<int64_t>(segment.ids.size());
  for (int64_t row = std::max<int64_t>(0, num_rows - state.num_open_rows(source)); row < num_rows;
       ++row) {
    std::copy_n(kv + row * dim, dim, state.open_kv(source, state.length() + row));
    std::copy_n(gate + row * dim, dim, state.open_gate(source, state.length() + row));
  }
}

// Adds the rows of one segment to its open group; closes groups as they fill. kv, gate [rows of the
// segment, dim]; open [2, ratio, dim] is room for a group.
void close_groups(const Segment& segment, int32_t segment_number, size_t source, int32_t ratio,
                  const float* kv, const float* gate, int64_t dim, float* open, Groups& out) {
  SequenceState& state = *segment.state;
  float* group_kv = open;
  float* group_gate = open + ratio * dim;
  int64_t filled = state.length() % ratio;
  for (int64_t i = 0; i < filled; ++i) {
    std::copy_n(state.open_kv(source, state.length() - filled + i), dim, group_kv + i * dim);
    std::copy_n(state.open_gate(source, state.length() - filled + i), dim, group_gate + i * dim);
  }
  const auto num_rows = static_cast<int64_t>(segment.ids.size());
  for (int64_t row = 0; row < num_rows; ++row) {
    std::copy_n(kv + row * dim, dim, group_kv + filled * dim);
    std::copy_n(gate + row * dim, dim, group_gate + filled * dim);
    if (++filled < ratio) continue;
    filled = 0;
    const int64_t position = state.length() + row + 1 - ratio;
    if (position < state.shared_until()) continue;  // it is there
    out.groups[static_cast<size_t>(out.count)] = {segment_number, position};
    kernels::pool_group(group_kv, group_gate, ratio, dim, out.latents.data() + out.count * dim);
    ++out.count;
  }
  keep_open_rows(segment, source, kv, gate, dim);
}

// The groups that end with the rows of this step and are not in shared blocks, pooled but not yet
// normalised.
Groups pool(Step& step, int32_t layer, std::span<const float> kv, std::span<const float> gate) {
  const ModelConfig& c = step.config();
  const int64_t dim = c.head_dim;
  const int32_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
  Groups out{step.work.arena().take<Group>(step.num_rows()), step.floats(step.num_rows() * dim)};
  if (ratio == 1) {  // a group is a token: nothing to weigh
    for (int64_t row = 0; row < step.num_rows(); ++row) {
      const Row& at = step.rows[static_cast<size_t>(row)];
      if (at.position < step.state(at).shared_until()) continue;  // it is there
      out.groups[static_cast<size_t>(out.count)] = {at.segment, at.position};
      std::copy_n(kv.data() + row * dim, dim, out.latents.data() + out.count * dim);
      ++out.count;
    }
    return out;
  }
  const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
  const std::span<float> open = step.floats(2 * ratio * dim);
  for (size_t s = 0; s < step.segments.size(); ++s) {
    const int64_t first = step.first_row[s] * dim;
    close_groups(step.segments[s], static_cast<int32_t>(s), number, ratio, kv.data() + first,
                 gate.data() + first, dim, open.data(), out);
  }
  return out;
}

}  // namespace

void compress(Step& step, int32_t layer, std::span<const float> kv, std::span<const float> gate) {
  const ModelConfig& c = step.config();
  const BlockConstants& constants = step.constants(layer);
  const auto number = static_cast<size_t>(step.model.source_number[static_cast<size_t>(layer)]);
  const int64_t dim = c.head_dim;
  const int64_t key_dim = c.index_head_dim;
  const int64_t pairs = c.qk_rope_head_dim / 2;
  const int64_t turn = 2 * pairs;

  const ArenaScope scope(step.work.arena());
  const Groups pooled = pool(step, layer, kv, gate);
  const std::span<float> latents = pooled.latents.first(static_cast<size_t>(pooled.count * dim));
  step.work.pool().run(pooled.count, [&](int64_t i, int /*worker*/) {
    float* latent = latents.data() + i * dim;
    kernels::rms_norm(latent, constants.compressor_norm.data(), dim, c.rms_norm_eps, latent);
  });
  // From the latents before they are rotated.
  const std::span<float> keys = lin(step, latents, step.weights(layer).attn.indexer_wk);
  const std::span<float> turns = step.floats(pooled.count * turn);
  step.work.pool().run(pooled.count, [&](int64_t i, int /*worker*/) {
    const Group& group = pooled.groups[static_cast<size_t>(i)];
    SequenceState& state = *step.segments[static_cast<size_t>(group.segment)].state;
    const int64_t entry = group.position / c.compress_ratios[static_cast<size_t>(layer)];
    float* own = turns.data() + i * turn;
    kernels::rotation(group.position, step.model.freq_compress, own);

    float* key = keys.data() + i * key_dim;
    kernels::rms_norm(key, constants.indexer_k_norm.data(), key_dim, c.rms_norm_eps, key);
    kernels::rotate(key, key_dim, own, pairs, false);
    encode_index(key, key_dim, state.index_key(number, entry));

    float* latent = latents.data() + i * dim;
    kernels::rotate(latent, dim, own, pairs, false);
    encode_latent(latent, dim, state.latent(number, entry));
  });
}

}  // namespace stoker
