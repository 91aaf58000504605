#include "model/workspace.h"

#include <algorithm>

#include "kernels/cpu/levels.h"

namespace stoker {

// The largest of what layers hold at once, beside what lasts for the whole pass.
int64_t Workspace::bytes_for(const ModelConfig& c, int num_threads, int64_t max_rows) {
  const int64_t hidden = c.hidden_size;
  const bool drafts = c.num_nextn_predict_layers > 0;
  const int64_t places =
      int64_t{std::max(c.num_experts_per_tok, drafts ? c.dspark_num_experts_per_tok : 0)} + 1;
  const int64_t query = int64_t{c.num_attention_heads} * c.head_dim;
  const int64_t index = int64_t{c.index_n_heads} * c.index_head_dim;
  const int64_t whole =
      int64_t{c.hc_mult} * hidden + 4 * c.qk_rope_head_dim + c.index_topk +
      c.candidate_topk_blocks +
      (drafts ? static_cast<int64_t>(c.dspark_target_layer_ids.size()) + 2 : 0) * hidden;
  const int64_t site = 4 * hidden + int64_t{c.hc_mult} * hidden + c.head_dim;
  const int64_t attention =
      3 * query + 3 * index + 2 * c.q_lora_rank + 2 * int64_t{c.o_groups} * c.o_lora_rank;
  const int64_t moe =
      places * (3 * int64_t{c.moe_intermediate_size} + hidden) + 2 * c.n_routed_experts + hidden;
  const int64_t engram =
      2 * c.engram_columns() * c.engram_head_dim + (int64_t{c.hc_mult} + 1) * hidden;
  const int64_t row_floats = whole + site + std::max({attention, moe, engram});
  const int64_t keys =
      int64_t{c.sliding_window} + std::max(c.index_topk, drafts ? c.dspark_block_size : 0);
  const int64_t worker_floats =
      std::max(kernels::attend_scratch_floats(c.num_attention_heads, c.head_dim, keys) + 2 * keys,
               kernels::index_scratch_floats(16, c.index_n_heads, c.index_head_dim) +
                   4 * int64_t{c.index_topk});
  constexpr int64_t kScores = int64_t{1} << 20;
  // Of a draft round: every draft's logits, and what one draft of each sequence adds to them.
  const int64_t chains =
      drafts ? kChainsTogether * (int64_t{c.dspark_block_size} + 1) * c.vocab_size : 0;
  return static_cast<int64_t>(sizeof(float)) *
         (max_rows * row_floats + num_threads * worker_floats + kScores + chains);
}

}  // namespace stoker
