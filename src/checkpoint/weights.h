// Every weight of a V4.1 model under its checkpoint name: one grep leads from the file to the code
// that uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/weight.h"

namespace stoker {

struct AttentionWeights {
  Weight attn_sink;  ///< f32 [heads]
  Weight wq_a, q_norm, wq_b, wkv, kv_norm, wo_a, wo_b;
  std::vector<Weight> wo_a_groups;         ///< [o_groups]: the rows of wo_a for each group of heads
  Weight compressor_wkv, compressor_norm;  ///< KV sources
  Weight compressor_wgate;                 ///< KV sources whose ratio is above 1
  Weight indexer_wk, indexer_k_norm;       ///< KV sources
  Weight indexer_wq_b, indexer_weights_proj;  ///< index sources
};

struct ExpertWeights {
  Weight w1, w2, w3;
};

struct MoeWeights {
  Weight gate_weight, gate_bias, gate_bias_vl;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared_experts;
};

/// The mixing coefficients of one residual site, f32:
/// fn [(2 + hc) * hc, hc * hidden], base [(2 + hc) * hc], scale [3].
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
  DraftWeights mtp;  ///< stages empty without a draft head
  /// The Engram tables' codes were checked at load; else a bad row gives NaN when it is read.
  bool engram_checked = false;
};

}  // namespace stoker
