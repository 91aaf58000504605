// Every weight of a V4.1 model under its checkpoint name: one grep leads from the file to the code that uses it.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

/// How a matrix is stored (docs/formats.md).
enum class WeightFormat {
  kBf16,
  kF32,
  kFp8Tile,   ///< e4m3 [rows, cols], one ue8m0 scale per 32x32 tile: scale [ceil(rows / 32), ceil(cols / 32)]
  kFp4Group,  ///< e2m1 [rows, cols / 2], low nibble first, one ue8m0 scale per row and 32 columns: scale [rows, cols / 32]
  kFp8Group,  ///< e4m3 [rows, cols], one ue8m0 scale per row and 32 columns: scale [rows, cols / 32]
};

/// A matrix [rows, cols], row-major, values and scales in place in the mapped file. A vector has one row. Absent: data is
/// null. Every code of an FP8 or FP4 matrix and every scale is finite and in range (but see ModelWeights::engram_checked).
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;   ///< no alignment is promised
  const uint8_t* scale = nullptr;  ///< null for kBf16 and kF32

  explicit operator bool() const { return data != nullptr; }
};

struct AttentionWeights {
  Weight attn_sink;  ///< f32 [heads]
  Weight wq_a, q_norm, wq_b, wkv, kv_norm, wo_a, wo_b;
  Weight compressor_wkv, compressor_wgate, compressor_norm;  ///< KV sources; wgate where the ratio is above 1
  Weight indexer_wk, indexer_k_norm;                         ///< KV sources
  Weight indexer_wq_b, indexer_weights_proj;                 ///< index sources
};

struct ExpertWeights {
  Weight w1, w2, w3;
};

struct MoeWeights {
  Weight gate_weight, gate_bias, gate_bias_vl;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared_experts;
};

/// The mixing coefficients of one residual site, f32: fn [(2 + hc) * hc, hc * hidden], base [(2 + hc) * hc], scale [3].
struct SiteWeights {
  Weight fn, base, scale;
};

struct EngramWeights {
  Weight embed;               ///< kFp8Group [rows, head_dim]
  Weight wkv;                 ///< kFp8Tile [(hc + 1) * hidden, columns * head_dim]
  Weight q_weight, k_weight;  ///< bf16 or f32 [hc, hidden]
};

/// One block of the backbone or one stage of the draft head.
struct BlockWeights {
  Weight attn_norm, ffn_norm;
  SiteWeights hc_attn, hc_ffn;
  AttentionWeights attn;
  MoeWeights ffn;
  EngramWeights engram;  ///< only on Engram layers
};

/// `mtp.*`: the stages and what only the first or the last has.
struct DraftWeights {
  std::vector<BlockWeights> stages;
  Weight main_proj, main_norm;  ///< mtp.0
  Weight norm, markov_head_embed, markov_head_head, confidence_head_proj;
};

struct ModelWeights {
  Weight embed, norm, head;
  std::vector<BlockWeights> layers;
  DraftWeights mtp;             ///< stages empty without a draft head
  bool engram_checked = false;  ///< the Engram tables' codes were checked at load; else a bad row gives NaN when it is read
};

}  // namespace stoker
