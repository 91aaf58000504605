// Inside the model room: what a forward pass works on, and the layers as functions under the
// reference's names. The stages of the draft head are layers too, numbered behind the backbone's,
// as their rings are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/weights.h"
#include "kv/sequence_state.h"
#include "model/engram_hash.h"
#include "model/model.h"
#include "model/trace.h"
#include "model/workspace.h"

namespace stoker {

/// Small weights of a block as float32, decoded once at load.
struct BlockConstants {
  std::vector<float> attn_norm, ffn_norm;
  std::vector<float> q_norm, kv_norm, attn_sink;
  std::vector<float> compressor_norm, indexer_k_norm;
  std::vector<float> gate_bias;
  std::vector<float> hc_attn_base, hc_attn_scale, hc_ffn_base, hc_ffn_scale;
  std::vector<float> engram_weight;  ///< [hc, hidden]: q_weight * k_weight
};

/// Small weights of the draft head beside its stages.
struct DraftConstants {
  std::vector<float> main_norm, norm;
  std::vector<float> confidence;  ///< [hidden + markov rank]
};

/// What every layer may read. Immutable.
struct ModelParts {
  const ModelConfig* config = nullptr;
  const ModelWeights* weights = nullptr;
  std::vector<BlockConstants> layers;  ///< then the draft stages
  std::vector<float> norm;
  DraftConstants draft;
  std::vector<float> freq_window;
  std::vector<float> freq_compress;
  std::vector<int32_t> token_map;       ///< [vocab_size]; empty without Engram
  std::vector<EngramHash> engram_hash;  ///< one, or none without Engram
  Replay replay;
  std::vector<int32_t>
      source_number;  ///< [layers]: index into KvShape::sources of the layer's KV source, or -1
};

/// One row of a step.
struct Row {
  int32_t segment = 0;
  int32_t index = 0;  ///< within its segment
  int64_t position = 0;
};

/// One forward pass: the rows, and what layers hand to each other. Its memory is the workspace's
/// arena, except for what layers take in a scope of their own.
struct Step {
  const ModelParts& model;
  Workspace& work;
  std::span<const Segment> segments;
  Trace* trace = nullptr;

  std::span<Row> rows{};
  std::span<int64_t> number{};        ///< [rows]: flat number in the batch
  std::span<int64_t> first_row{};     ///< [segments]: index of its first row, if it has any
  std::span<int64_t> segment_rows{};  ///< [segments]
  std::span<float> streams{};         ///< [rows, hc, hidden]
  std::span<float> pre{};             ///< [rows, hc]: with which the next site's input is mixed
  // [rows, qk_rope_head_dim]: kernels::rotation of each row's position.
  std::span<float> turn_window{};
  std::span<float> turn_compress{};

  int64_t max_chosen = 0;               ///< entries that a row can pick in this step
  std::span<int32_t> chosen{};          ///< [rows, max_chosen]: picked by the latest index source
  std::span<int32_t> num_chosen{};      ///< [rows]
  int64_t max_candidates = 0;           ///< blocks that a row can keep in this step
  std::span<int32_t> candidates{};      ///< [rows, max_candidates]: kept by the candidate source
  std::span<int32_t> num_candidates{};  ///< [rows]

  // What the draft head reads of this pass: each segment's rows from a position to its end.
  std::span<int64_t> tap_from{};   ///< [segments]: position
  std::span<int64_t> first_tap{};  ///< [segments]: number of its first such row
  std::span<float> taps{};         ///< [such rows, target layers, hidden]

  int64_t num_rows() const { return static_cast<int64_t>(rows.size()); }
  const ModelConfig& config() const { return *model.config; }
  bool is_draft_stage(int32_t layer) const { return layer >= config().num_hidden_layers; }
  const BlockWeights& weights(int32_t layer) const {
    return is_draft_stage(layer)
               ? model.weights->mtp.stages[static_cast<size_t>(layer - config().num_hidden_layers)]
               : model.weights->layers[static_cast<size_t>(layer)];
  }
  const BlockConstants& constants(int32_t layer) const {
    return model.layers[static_cast<size_t>(layer)];
  }
  int32_t compress_ratio(int32_t layer) const {
    return is_draft_stage(layer) ? 0 : config().compress_ratios[static_cast<size_t>(layer)];
  }
  /// Experts that a row goes to.
  int64_t top_k(int32_t layer) const {
    return is_draft_stage(layer) ? config().dspark_num_experts_per_tok
                                 : config().num_experts_per_tok;
  }
  SequenceState& state(const Row& row) const {
    return *segments[static_cast<size_t>(row.segment)].state;
  }
  std::span<const int32_t> chosen_of(int64_t row) const {
    return chosen.subspan(static_cast<size_t>(row * max_chosen),
                          static_cast<size_t>(num_chosen[static_cast<size_t>(row)]));
  }
  std::span<const int32_t> candidates_of(int64_t row) const {
    return candidates.subspan(static_cast<size_t>(row * max_candidates),
                              static_cast<size_t>(num_candidates[static_cast<size_t>(row)]));
  }

  /// Memory until the arena is wound back.
  std::span<float> floats(int64_t count) { return work.arena().take<float>(count); }
  /// work(row, worker) for every row.
  template <class Work>
  void for_each_row(const Work& work_of_row) {
    work.pool().run(num_rows(), work_of_row);
  }

  /// Notes each row of values [rows, width] where a trace is kept.
  void note(int32_t layer, const char* point, std::span<const float> values) const;
  void note_streams(int32_t layer, const char* point) const { note(layer, point, streams); }
};

/// "layers.N.point".
std::string trace_name(int32_t layer, const char* point);

/// Coefficients of a residual site for every row.
struct Mixes {
  std::span<float> pre;   ///< [rows, hc]
  std::span<float> post;  ///< [rows, hc]
  std::span<float> comb;  ///< [rows, hc, hc]
};

/// Lengths of the segments' states [segments], in the arena: where their rows begin.
std::span<int64_t> lengths(Step& step);
/// The rows of all segments from the positions `from` [segments] on.
void number_rows(Step& step, std::span<const int64_t> from);
/// The first streams and `pre` of a pass, and the rotations of its rows.
void embed(Step& step);
/// One block: a layer with its two sites.
void run_block(Step& step, int32_t layer);

/// Source of all: the functions of the same names in tools/reference/v41/model.py. Buffers are
/// [rows, width] f32; what is returned is in the arena.
Mixes mixes(Step& step, const Weight& fn, const std::vector<float>& base,
            const std::vector<float>& scale);
/// collapsed [rows, hidden]: what is normalised, where it is wanted too.
std::span<float> collapse_and_norm(Step& step, std::span<const float> pre,
                                   const std::vector<float>& norm, std::span<float> collapsed = {});
void expand(Step& step, std::span<const float> y, const Mixes& mixes);
void engram(Step& step, int32_t layer);
/// Has the rows of large Engram tables that this step needs read from disk, long before they are
/// used.
void read_engram_ahead(Step& step);
std::span<float> moe(Step& step, int32_t layer, std::span<const float> x);

/// Window records of a layer for the rows that its step had when they were made: each segment's
/// rows end with its last one.
struct WindowRecords {
  std::span<uint8_t> bytes;         ///< [rows, window_record_bytes]
  std::span<int64_t> first_row;     ///< [segments]
  std::span<int64_t> segment_rows;  ///< [segments]
};

/// What a layer remembers of every row: the records of its window and, at a KV source, the latents
/// and index keys of the groups that end in this step, appended to the states.
WindowRecords remember(Step& step, int32_t layer, std::span<const float> x);

/// Attends to the windows and to the chosen rows, which an index source picks here. The rows of a
/// draft stage see the last `sliding_window` rows of its ring and all rows of their segment.
std::span<float> attention(Step& step, int32_t layer, std::span<const float> x,
                           const WindowRecords& records);

/// Puts the last records of each segment into its images and rings.
void keep_window(Step& step, int32_t layer, const WindowRecords& records);

/// Leaves only the rows from their states' late_from() on in the step and in x [rows, hidden].
void keep_late_rows(Step& step, std::span<float>& x);

/// Draft head: makes room for what it will read of this pass.
void prepare_taps(Step& step);
/// Takes the mean of the streams that enter one of its target layers.
void tap(Step& step, int32_t layer);
/// Makes the stages' keys of the rows that a pass tapped, and keeps them.
void keep_draft_keys(const Step& pass);
/// Model::draft for as many sequences as go together; the first of them is number `first` of the
/// whole batch.
void draft_round(const ModelParts& model, Workspace& work, std::span<const DraftJob> batch,
                 size_t first, const PickDraft& pick);

/// Appends to the states' KV source of this layer. kv and gate (empty with ratio 1) [rows,
/// head_dim]: the rows' projections.
void compress(Step& step, int32_t layer, std::span<const float> kv, std::span<const float> gate);
/// Sets step.chosen for every row, and step.candidates at the candidate source. q [rows,
/// index_n_heads, index_head_dim], overwritten; weights [rows, index_n_heads], not yet scaled,
/// overwritten.
void select(Step& step, int32_t layer, std::span<float> q, std::span<float> weights);

/// x [rows, weight.cols] times the weight: [rows, weight.rows].
std::span<float> lin(Step& step, std::span<const float> x, const Weight& weight);

/// A vector weight, or all rows of a small matrix, as float32.
std::vector<float> decode_all(const Weight& weight);

}  // namespace stoker
