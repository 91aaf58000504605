// config.json: the sizes and constants of a model, checked against each other once. Nothing later
// checks them again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker {

/// How the router turns logits into scores.
enum class ScoringFunc { kSqrtSoftplus, kSigmoid, kSoftmax };

/// YaRN scaling of the compressed layers' rotary frequencies; factor 0: none.
struct YarnConfig {
  double factor = 0;
  double beta_fast = 0;
  double beta_slow = 0;
  double original_max_position_embeddings = 0;

  bool operator==(const YarnConfig&) const = default;
};

/// Names are the released keys of config.json (tools/reference/v41, docs/formats.md). Every number
/// is in range, every list of layers ascending and inside the model, and related sizes fit each
/// other.
struct ModelConfig {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t head_dim = 0;
  int32_t qk_rope_head_dim = 0;
  int32_t q_lora_rank = 0;
  int32_t o_lora_rank = 0;
  int32_t o_groups = 0;
  int32_t sliding_window = 0;
  int32_t max_position_embeddings = 0;
  float swiglu_limit = 0;  ///< 0: no clamping
  float rms_norm_eps = 0;

  double rope_theta = 0;
  double compress_rope_theta = 0;
  YarnConfig rope_scaling;

  int32_t n_routed_experts = 0;
  int32_t n_shared_experts = 0;  ///< 1
  int32_t num_experts_per_tok = 0;
  int32_t moe_intermediate_size = 0;
  ScoringFunc scoring_func = ScoringFunc::kSqrtSoftplus;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  float gate_temp = 1;

  std::vector<int32_t> compress_ratios;      ///< [num_hidden_layers]; 0: window only
  std::vector<int32_t> kv_source_layer_ids;  ///< each is an index source too
  std::vector<int32_t> index_source_layer_ids;
  int32_t index_n_heads = 0;
  int32_t index_head_dim = 0;
  int32_t index_topk = 0;
  int32_t candidate_source_layer_id = -1;  ///< -1: no second level
  int32_t candidate_topk_blocks = 0;
  int32_t candidate_block_size = 0;

  int32_t hc_mult = 0;
  int32_t hc_sinkhorn_iters = 0;
  float hc_eps = 0;

  std::vector<int32_t> engram_layer_ids;  ///< empty: no Engram; the fields below are then unset
  std::vector<int64_t> engram_num_embeddings;  ///< rows of each table: the sums of its primes
  int64_t engram_vocab_size = 0;
  int32_t engram_max_ngram_size = 0;
  int32_t engram_n_heads = 0;
  int32_t engram_head_dim = 0;
  int32_t engram_pad_token_id = 0;
  int32_t engram_compressed_vocab_size = 0;

  /// Draft stages; 0: no draft head, the fields below are then unset.
  int32_t num_nextn_predict_layers = 0;
  int32_t dspark_block_size = 0;
  int32_t dspark_noise_token_id = 0;
  int32_t dspark_markov_rank = 0;
  std::vector<int32_t> dspark_target_layer_ids;
  int32_t dspark_n_routed_experts = 0;
  int32_t dspark_num_experts_per_tok = 0;

  int32_t bos_token_id = 0;
  int32_t eos_token_id = 0;
  int32_t image_token_id = -1;  ///< -1: the model has no images

  /// Columns of one Engram look-up: (engram_max_ngram_size - 1) * engram_n_heads.
  int32_t engram_columns() const { return (engram_max_ngram_size - 1) * engram_n_heads; }

  /// The largest KV source (index source) at or before `layer`; -1 for a layer with ratio 0.
  int32_t kv_source_of(int32_t layer) const;
  int32_t index_source_of(int32_t layer) const;
  bool is_kv_source(int32_t layer) const;
  bool is_index_source(int32_t layer) const;
  /// Which Engram table the layer has, or -1.
  int32_t engram_index_of(int32_t layer) const;

  bool operator==(const ModelConfig&) const = default;
};

/// Reads config.json in its composite or flat form, with the released or the short key names
/// (docs/formats.md). Errors name the key, what was expected and what was found: kCorruptData for
/// what is not JSON, kInvalidArgument for values that are missing, wrong or contradictory,
/// kUnsupported for another architecture or a switch that this engine does not have.
Result<ModelConfig> parse_config(std::string_view text);

/// The prime moduli of the Engram tables: [layer][ngram size - 2][head], ascending from
/// engram_vocab_size, none used twice. Source: tools/reference/v41/engram.py, bucket_primes.
std::vector<std::vector<std::vector<int64_t>>> engram_primes(size_t num_layers,
                                                             int32_t max_ngram_size,
                                                             int32_t num_heads, int64_t vocab_size);

}  // namespace stoker
