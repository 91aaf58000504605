#include "tools/slice_config.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/try.h"
#include "checkpoint/config.h"

namespace stoker::slice {
namespace {

constexpr int32_t kFewestLayers = 4;  // one for each role
constexpr int32_t kMostLayers = 512;  // parse_config's

// What all V4.1 models have.
constexpr std::string_view kCommon = R"({
  "model_type": "deepseek_v41_text", "num_key_value_heads": 1, "hidden_act": "silu",
  "swiglu_limit": 10.0, "rms_norm_eps": 1e-20, "attention_bias": false, "rope_theta": 10000,
  "compress_rope_theta": 160000, "n_shared_experts": 1, "scoring_func": "sqrtsoftplus",
  "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "hc_mult": 4,
  "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "engram_pad_token_id": 2, "dspark_noise_token_id": 7,
  "dspark_block_size": 5, "num_nextn_predict_layers": 1})";

// The released sizes; with fewer layers, experts, tokens and rows of Engram.
constexpr std::string_view kSliceSizes = R"({
  "num_hidden_layers": 4, "n_routed_experts": 16, "vocab_size": 4096, "engram_vocab_size": 20000,
  "hidden_size": 5120, "num_attention_heads": 64, "head_dim": 512, "qk_rope_head_dim": 64,
  "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8, "num_experts_per_tok": 6,
  "moe_intermediate_size": 2304, "sliding_window": 128, "index_n_heads": 32,
  "index_head_dim": 128, "index_topk": 512, "candidate_topk_blocks": 2048,
  "candidate_block_size": 8, "engram_max_ngram_size": 4, "engram_n_heads": 8,
  "engram_head_dim": 256, "dspark_num_experts_per_tok": 3, "dspark_markov_rank": 256,
  "max_position_embeddings": 1048576, "rope_scaling": {"rope_type": "yarn", "factor": 16,
  "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 65536}})";

constexpr std::string_view kTinySizes = R"({
  "num_hidden_layers": 4, "n_routed_experts": 16, "vocab_size": 512, "engram_vocab_size": 101,
  "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64, "qk_rope_head_dim": 32,
  "q_lora_rank": 64, "o_lora_rank": 64, "o_groups": 2, "num_experts_per_tok": 2,
  "moe_intermediate_size": 128, "sliding_window": 16, "index_n_heads": 4, "index_head_dim": 32,
  "index_topk": 16, "candidate_topk_blocks": 8, "candidate_block_size": 4,
  "engram_max_ngram_size": 3, "engram_n_heads": 2, "engram_head_dim": 32,
  "dspark_num_experts_per_tok": 2, "dspark_markov_rank": 32, "max_position_embeddings": 16384,
  "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
  "original_max_position_embeddings": 1024}})";

constexpr std::string_view kQuantization = R"({"quant_method": "fp8", "activation_scheme":
  "dynamic", "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"})";

Json json_of(std::string_view text) {
  Result<Json> json = Json::parse(text);
  CHECK(json, "the texts above are JSON");
  return *std::move(json);
}

int32_t integer_in(const Json& object, std::string_view key) {
  return static_cast<int32_t>(object.find(key)->as_int().value_or(0));
}

Json integers(const std::vector<int32_t>& values) {
  std::vector<Json> items;
  items.reserve(values.size());
  for (const int32_t value : values) items.push_back(Json::integer(value));
  return Json::array(std::move(items));
}

// Which layer does what.
struct Roles {
  std::vector<int32_t> ratios;
  std::vector<int32_t> kv_sources;
  std::vector<int32_t> index_sources;
  std::vector<int32_t> engram;
};

// With 40 layers those of the released model.
Roles roles_of(int32_t num_layers) {
  const int32_t half = num_layers / 2;
  const int32_t num_window = std::max(1, num_layers / 20);
  const int32_t kv_step = std::max(1, (half - num_window) / 3);
  const int32_t index_step = std::max(1, num_layers / 10);
  Roles roles;
  for (int32_t layer = 0; layer < num_layers; ++layer)
    roles.ratios.push_back(layer < num_window ? 0 : layer < half ? 2 : 1);
  for (int32_t i = 0; i < 3 && num_window + i * kv_step < half; ++i)
    roles.kv_sources.push_back(num_window + i * kv_step);
  roles.index_sources = roles.kv_sources;
  roles.engram = {num_window - 1};
  if (roles.kv_sources.size() == 3) roles.engram.push_back(roles.kv_sources[2]);
  roles.kv_sources.push_back(half);
  for (int32_t layer = half; layer < num_layers; layer += index_step)
    roles.index_sources.push_back(layer);
  return roles;
}

void set_roles(Json& text, int32_t num_layers) {
  Roles roles = roles_of(num_layers);
  roles.ratios.push_back(0);  // of the draft stage
  text.set("compress_ratios", integers(roles.ratios));
  text.set("kv_source_layer_ids", integers(roles.kv_sources));
  text.set("index_source_layer_ids", integers(roles.index_sources));
  text.set("candidate_source_layer_id", Json::integer(roles.kv_sources.back()));
  text.set("engram_layer_ids", integers(roles.engram));
  text.set("dspark_target_layer_ids", integers({num_layers - 3, num_layers - 2, num_layers - 1}));
}

// What follows from the other sizes.
void set_derived(Json& text) {
  const int32_t draft_experts = std::max(integer_in(text, "n_routed_experts") / 3,
                                         integer_in(text, "dspark_num_experts_per_tok"));
  text.set("dspark_n_routed_experts", Json::integer(draft_experts));
  // Without a tokenizer every id is a class of its own.
  text.set("engram_compressed_vocab_size", Json::integer(integer_in(text, "vocab_size")));
  Json tables = Json::array();
  for (const auto& table : engram_primes(
           text.find("engram_layer_ids")->items().size(), integer_in(text, "engram_max_ngram_size"),
           integer_in(text, "engram_n_heads"), integer_in(text, "engram_vocab_size"))) {
    int64_t rows = 0;
    for (const auto& primes : table) {
      for (const int64_t prime : primes) rows += prime;
    }
    tables.push(Json::integer(rows));
  }
  text.set("engram_num_embeddings", std::move(tables));
}

}  // namespace

Result<Json> make_config(const Options& options) {
  Json text = json_of(kCommon);
  const Json sizes = json_of(options.widths == Widths::kSlice ? kSliceSizes : kTinySizes);
  for (const auto& [name, value] : sizes.members()) text.set(name, value);
  const auto replace = [&text](const char* key, const std::optional<int32_t>& value) {
    if (value) text.set(key, Json::integer(*value));
  };
  replace("num_hidden_layers", options.layers);
  replace("n_routed_experts", options.experts);
  replace("vocab_size", options.vocab);
  const int32_t num_layers = integer_in(text, "num_hidden_layers");
  if (num_layers < kFewestLayers || num_layers > kMostLayers) {
    return Error{ErrorCode::kInvalidArgument,
                 "--layers: expected " + std::to_string(kFewestLayers) +
                     ", so that each role has "
                     "one, to " +
                     std::to_string(kMostLayers) + "; found " + std::to_string(num_layers),
                 "layers"};
  }
  set_roles(text, num_layers);
  set_derived(text);
  return Json::object({{"architectures", Json::array({Json::string("DeepseekV41ForCausalLM")})},
                       {"model_type", Json::string("deepseek_v41")},
                       {"bos_token_id", Json::integer(0)},
                       {"eos_token_id", Json::integer(1)},
                       {"tie_word_embeddings", Json::boolean(false)},
                       {"text_config", std::move(text)},
                       {"quantization_config", json_of(kQuantization)}});
}

}  // namespace stoker::slice
