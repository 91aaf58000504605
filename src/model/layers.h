// Inside the model room: what a forward pass works on, and the layers as functions under the
// reference's names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "checkpoint/config.h"
#include "checkpoint/weights.h"
#include "kv/sequence_state.h"
#include "model/engram_hash.h"
#include "model/model.h"
#include "model/trace.h"

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

/// What every layer may read. Immutable.
struct ModelParts {
  const ModelConfig* config = nullptr;
  const ModelWeights* weights = nullptr;
  std::vector<BlockConstants> layers;
  std::vector<float> norm;
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

/// One forward pass: the rows, and what layers hand to each other.
struct Step {
  const ModelParts& model;
  WorkerPool& pool;
  std::span<const Segment> segments;
  Trace* trace = nullptr;

  std::vector<Row> rows{};
  std::vector<int64_t> number{};        ///< [rows]: flat number in the batch
  std::vector<int64_t> first_row{};     ///< [segments]: index of its first row, if it has any
  std::vector<int64_t> segment_rows{};  ///< [segments]
  std::vector<float> streams{};         ///< [rows, hc, hidden]
  // [rows, qk_rope_head_dim]: kernels::rotation of each row's position.
  std::vector<float> turn_window{};
  std::vector<float> turn_compress{};

  std::vector<std::vector<int32_t>>
      chosen{};  ///< [rows]: entries that the latest index source picked
  std::vector<std::vector<int32_t>>
      candidates{};  ///< [rows]: blocks that the candidate source kept

  int64_t num_rows() const { return static_cast<int64_t>(rows.size()); }
  const ModelConfig& config() const { return *model.config; }
  SequenceState& state(const Row& row) const {
    return *segments[static_cast<size_t>(row.segment)].state;
  }

  /// Notes each row of values [rows, width] where a trace is kept.
  void note(int32_t layer, const char* point, const std::vector<float>& values) const;
  void note_streams(int32_t layer, const char* point) const { note(layer, point, streams); }
};

/// "layers.N.point".
std::string trace_name(int32_t layer, const char* point);

/// Coefficients of a residual site for every row.
struct Mixes {
  std::vector<float> pre;   ///< [rows, hc]
  std::vector<float> post;  ///< [rows, hc]
  std::vector<float> comb;  ///< [rows, hc, hc]
};

/// Source of all: the functions of the same names in tools/reference/v41/model.py. Buffers are
/// [rows, width] f32.
Mixes mixes(Step& step, const Weight& fn, const std::vector<float>& base,
            const std::vector<float>& scale);
std::vector<float> collapse_and_norm(Step& step, const std::vector<float>& pre,
                                     const std::vector<float>& norm);
void expand(Step& step, const std::vector<float>& y, const Mixes& mixes);
void engram(Step& step, int32_t layer);
std::vector<float> moe(Step& step, int32_t layer, const std::vector<float>& x);

/// Window records of a layer for the rows that its step had when they were made: each segment's
/// rows end with its last one.
struct WindowRecords {
  std::vector<uint8_t> bytes;         ///< [rows, window_record_bytes]
  std::vector<int64_t> first_row;     ///< [segments]
  std::vector<int64_t> segment_rows;  ///< [segments]
};
WindowRecords window_records(Step& step, int32_t layer, const std::vector<float>& x);

/// Attends to the windows and, after compress() of its source, to the chosen rows; keeps the window
/// records in the rings and in the images of captures.
std::vector<float> attention(Step& step, int32_t layer, const std::vector<float>& x,
                             const WindowRecords& records);

/// Puts the last records of each segment into its images and rings; after attention() it is done.
void keep_window(Step& step, int32_t layer, const WindowRecords& records);

/// Leaves only the rows from their states' late_from() on in the step, in x [rows, hidden] and in
/// pre [rows, hc].
void keep_late_rows(Step& step, std::vector<float>& x, std::vector<float>& pre);

/// Appends the latents and index keys of the groups that end in this step to the states' KV
/// sources.
void compress(Step& step, int32_t layer, const std::vector<float>& x);
/// Sets step.chosen for every row, and step.candidates at the candidate source. q_low [rows,
/// q_lora_rank].
void select(Step& step, int32_t layer, const std::vector<float>& x,
            const std::vector<float>& q_low);

/// x [rows, weight.cols] times the weight: [rows, weight.rows].
std::vector<float> lin(Step& step, const std::vector<float>& x, const Weight& weight);

/// A vector weight, or all rows of a small matrix, as float32.
std::vector<float> decode_all(const Weight& weight);

}  // namespace stoker
