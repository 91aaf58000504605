// config.json in all its spellings, and every value and combination that must be refused.
#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/checkpoint.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::edited;
using ::testing::ElementsAre;
using testing::file_text;
using ::testing::HasSubstr;
using testing::json_of;

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

Json small_json() {
  return json_of(file_text(testing::kSmallCheckpoint + "/config.json"));
}

std::string data_text(const std::string& name) {
  return file_text(STOKER_SOURCE_DIR "/tests/data/config/" + name);
}

ModelConfig parsed(const Json& json) {
  auto config = parse_config(json.dump());
  if (!config) ADD_FAILURE() << config.error().message;
  return config ? *std::move(config) : ModelConfig();
}

// The config where everything that text_config holds stands at top level.
Json flattened(const Json& composite) {
  Json flat = edited(composite, "text_config", std::nullopt);
  for (const auto& [key, value] : composite.find("text_config")->members()) flat.set(key, value);
  return flat;
}

TEST(Config, ReadsTheReleasedOne) {
  const ModelConfig c = parsed(json_of(data_text("released.json")));
  EXPECT_EQ(c.vocab_size, 129280);
  EXPECT_EQ(c.hidden_size, 5120);
  EXPECT_EQ(c.num_hidden_layers, 40);
  EXPECT_EQ(c.num_attention_heads, 64);
  EXPECT_EQ(c.head_dim, 512);
  EXPECT_EQ(c.qk_rope_head_dim, 64);
  EXPECT_EQ(c.q_lora_rank, 1280);
  EXPECT_EQ(c.o_lora_rank, 1024);
  EXPECT_EQ(c.o_groups, 8);
  EXPECT_EQ(c.sliding_window, 128);
  EXPECT_EQ(c.max_position_embeddings, 1048576);
  EXPECT_EQ(c.swiglu_limit, 10.0F);
  EXPECT_EQ(c.rms_norm_eps, 1e-20F);
  EXPECT_EQ(c.rope_theta, 10000);
  EXPECT_EQ(c.compress_rope_theta, 160000);
  EXPECT_EQ(c.rope_scaling, (YarnConfig{16, 32, 1, 65536}));
  EXPECT_EQ(c.n_routed_experts, 384);
  EXPECT_EQ(c.n_shared_experts, 1);
  EXPECT_EQ(c.num_experts_per_tok, 6);
  EXPECT_EQ(c.moe_intermediate_size, 2304);
  EXPECT_EQ(c.scoring_func, ScoringFunc::kSqrtSoftplus);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.routed_scaling_factor, 1.5F);
  EXPECT_EQ(c.gate_temp, 1.0F);
  EXPECT_EQ(c.compress_ratios.size(), 40U);
  EXPECT_EQ(std::accumulate(c.compress_ratios.begin(), c.compress_ratios.end(), 0), 18 * 2 + 20);
  EXPECT_THAT(c.kv_source_layer_ids, ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(c.index_source_layer_ids, ElementsAre(2, 8, 14, 20, 24, 28, 32, 36));
  EXPECT_EQ(c.index_n_heads, 32);
  EXPECT_EQ(c.index_head_dim, 128);
  EXPECT_EQ(c.index_topk, 512);
  EXPECT_EQ(c.candidate_source_layer_id, 20);
  EXPECT_EQ(c.candidate_topk_blocks, 2048);
  EXPECT_EQ(c.candidate_block_size, 8);
  EXPECT_EQ(c.hc_mult, 4);
  EXPECT_EQ(c.hc_sinkhorn_iters, 20);
  EXPECT_EQ(c.hc_eps, 1e-6F);
  EXPECT_THAT(c.engram_layer_ids, ElementsAre(1, 14));
  EXPECT_THAT(c.engram_num_embeddings, ElementsAre(384006168, 384016682));
  EXPECT_EQ(c.engram_vocab_size, 16000000);
  EXPECT_EQ(c.engram_columns(), 24);
  EXPECT_EQ(c.engram_head_dim, 256);
  EXPECT_EQ(c.engram_pad_token_id, 2);
  EXPECT_EQ(c.engram_compressed_vocab_size, 99092);
  EXPECT_EQ(c.num_nextn_predict_layers, 3);
  EXPECT_EQ(c.dspark_block_size, 5);
  EXPECT_EQ(c.dspark_noise_token_id, 128799);
  EXPECT_EQ(c.dspark_markov_rank, 256);
  EXPECT_THAT(c.dspark_target_layer_ids, ElementsAre(37, 38, 39));
  EXPECT_EQ(c.dspark_n_routed_experts, 128);
  EXPECT_EQ(c.dspark_num_experts_per_tok, 3);
  EXPECT_EQ(c.bos_token_id, 0);
  EXPECT_EQ(c.eos_token_id, 1);
  EXPECT_EQ(c.image_token_id, 129264);
}

// docs/formats.md: flat, short names, no fixed switches.
TEST(Config, ReadsTheShortNamesOfAFlatOne) {
  EXPECT_EQ(parsed(json_of(data_text("released_flat.json"))),
            parsed(json_of(data_text("released.json"))));
}

TEST(Config, ReadsAFlatOneWithReleasedNames) {
  EXPECT_EQ(parsed(flattened(small_json())), parsed(small_json()));
}

struct Spelling {
  const char* released;
  const char* brief;
};

constexpr Spelling kSpellings[] = {
    {"hidden_size", "dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"qk_rope_head_dim", "rope_head_dim"},
    {"rms_norm_eps", "norm_eps"},
    {"max_position_embeddings", "max_seq_len"},
    {"num_experts_per_tok", "n_activated_experts"},
    {"moe_intermediate_size", "moe_inter_dim"},
    {"scoring_func", "score_func"},
    {"routed_scaling_factor", "route_scale"},
    {"sliding_window", "window_size"},
    {"kv_source_layer_ids", "kv_source_layers"},
    {"index_source_layer_ids", "index_source_layers"},
    {"candidate_source_layer_id", "candidate_source_layer"},
    {"engram_pad_token_id", "engram_pad_id"},
    {"num_nextn_predict_layers", "n_mtp_layers"},
    {"dspark_num_experts_per_tok", "dspark_n_activated_experts"},
};

TEST(Config, EachShortNameStandsForItsReleasedOne) {
  const Json json = small_json();
  const ModelConfig whole = parsed(json);
  for (const Spelling& key : kSpellings) {
    SCOPED_TRACE(key.released);
    const std::string released = std::string("text_config.") + key.released;
    const std::string brief = std::string("text_config.") + key.brief;
    const Json value = *json.find("text_config")->find(key.released);
    EXPECT_EQ(parsed(edited(edited(json, released, std::nullopt), brief, value)), whole);
    // Where both are there, the short one counts.
    EXPECT_EQ(parsed(edited(edited(json, released, json_of("\"junk\"")), brief, value)), whole);
  }
}

// The value of each key that may be missing, when it is.
TEST(Config, Defaults) {
  const Json json = small_json();
  const ModelConfig whole = parsed(json);
  const auto without = [&](const char* path) { return parsed(edited(json, path, std::nullopt)); };

  for (const char* path :
       {"architectures", "model_type", "dtype", "tie_word_embeddings", "quantization_config",
        "quantization_config.expert_dtype", "quantization_config.scale_fmt", "bos_token_id",
        "eos_token_id", "text_config.model_type", "text_config.num_key_value_heads",
        "text_config.n_shared_experts", "text_config.hidden_act", "text_config.attention_bias",
        "text_config.topk_method", "text_config.rope_scaling.beta_fast",
        "text_config.rope_scaling.beta_slow", "text_config.candidate_source_layer_id"}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(without(path), whole);
  }
  EXPECT_EQ(without("image_token_id").image_token_id, -1);
  EXPECT_EQ(without("text_config.rope_scaling").rope_scaling, YarnConfig());
  EXPECT_EQ(parsed(edited(json, "text_config.rope_scaling", Json())).rope_scaling, YarnConfig());
  EXPECT_EQ(parsed(edited(json, "text_config.rope_scaling", json_of(R"({"type": "default"})")))
                .rope_scaling,
            YarnConfig());
  EXPECT_EQ(parsed(edited(json, "text_config.gate_temp", json_of("0.5"))).gate_temp, 0.5F);

  const Json no_draft =
      edited(json, "text_config.compress_ratios", json_of("[0, 0, 2, 2, 2, 2, 1, 1, 1, 1]"));
  EXPECT_EQ(parsed(no_draft), whole) << "zeros for draft stages may be left out";
  const ModelConfig plain =
      parsed(edited(no_draft, "text_config.num_nextn_predict_layers", std::nullopt));
  EXPECT_EQ(plain.num_nextn_predict_layers, 0);
  EXPECT_TRUE(plain.dspark_target_layer_ids.empty());
}

TEST(Config, CandidateSource) {
  const Json json = small_json();
  const auto source = [&](const std::optional<Json>& value) {
    return parsed(edited(json, "text_config.candidate_source_layer_id", value))
        .candidate_source_layer_id;
  };
  EXPECT_EQ(source(std::nullopt), 6) << "missing: the last KV source";
  EXPECT_EQ(source(Json()), -1) << "null: none";
  EXPECT_EQ(source(json_of("-5")), -1) << "negative: none";
  EXPECT_EQ(source(json_of("8")), 8);
}

TEST(Config, RopeSpellings) {
  const Json json = small_json();
  const ModelConfig whole = parsed(json);
  // `type` for `rope_type`.
  EXPECT_EQ(parsed(edited(edited(json, "text_config.rope_scaling.rope_type", std::nullopt),
                          "text_config.rope_scaling.type", json_of("\"yarn\""))),
            whole);
  // The nested spelling wins over rope_scaling, and over the bases beside it where it has its own.
  const Json nested = json_of(R"({"main": {"rope_type": "default", "rope_theta": 20000},
      "compress": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 128}})");
  const ModelConfig other = parsed(edited(json, "text_config.rope_parameters", nested));
  EXPECT_EQ(other.rope_theta, 20000);
  EXPECT_EQ(other.compress_rope_theta, 160000);
  EXPECT_EQ(other.rope_scaling, (YarnConfig{4, 32, 1, 128}));
  // Without both of its objects it does not count.
  EXPECT_EQ(parsed(edited(json, "text_config.rope_parameters", json_of(R"({"main": {}})"))), whole);
}

TEST(Config, SourcesOfLayers) {
  const ModelConfig c = parsed(json_of(data_text("released.json")));
  constexpr int32_t kKv[] = {-1, -1, 2, 2, 2, 2, 2, 2, 8, 8, 8, 8, 8, 8, 14, 14, 14, 14, 14, 14};
  constexpr int32_t kIndex[] = {20, 20, 20, 20, 24, 24, 24, 24, 28, 28,
                                28, 28, 32, 32, 32, 32, 36, 36, 36, 36};
  for (int32_t layer = 0; layer < 40; ++layer) {
    SCOPED_TRACE(layer);
    const int32_t kv = layer < 20 ? kKv[layer] : 20;
    EXPECT_EQ(c.kv_source_of(layer), kv);
    EXPECT_EQ(c.index_source_of(layer), layer < 20 ? kv : kIndex[layer - 20]);
    EXPECT_EQ(c.is_kv_source(layer), kv == layer);
    EXPECT_EQ(c.is_index_source(layer), c.index_source_of(layer) == layer);
    EXPECT_EQ(c.engram_index_of(layer), layer == 1 ? 0 : layer == 14 ? 1 : -1);
  }
}

// A config that must be refused: the small one with `path` set to `value` (or, null, without it).
struct Refusal {
  const char* path;
  const char* value;
  ErrorCode code;
  const char* message;  // a part of it
};

template <size_t n>
void expect_refusals(const Refusal (&rows)[n]) {
  const Json json = small_json();
  for (const Refusal& row : rows) {
    SCOPED_TRACE(std::string(row.path) + " = " + (row.value != nullptr ? row.value : "(missing)"));
    std::optional<Json> value;
    if (row.value != nullptr) value = json_of(row.value);
    const auto config = parse_config(edited(json, row.path, value).dump());
    if (config) {
      ADD_FAILURE() << "taken";
      continue;
    }
    EXPECT_EQ(config.error().code, row.code) << config.error().message;
    EXPECT_THAT(config.error().message,
                AllOf(HasSubstr(row.message), HasSubstr("expected"), HasSubstr("found")));
  }
}

// Keys that must be there, those of Engram and of the draft head among them.
constexpr Refusal kMissing[] = {
    {"text_config.vocab_size", nullptr, kInvalid, "text_config.vocab_size"},
    {"text_config.hidden_size", nullptr, kInvalid, "text_config.hidden_size"},
    {"text_config.num_hidden_layers", nullptr, kInvalid, "text_config.num_hidden_layers"},
    {"text_config.num_attention_heads", nullptr, kInvalid, "text_config.num_attention_heads"},
    {"text_config.head_dim", nullptr, kInvalid, "text_config.head_dim"},
    {"text_config.qk_rope_head_dim", nullptr, kInvalid, "text_config.qk_rope_head_dim"},
    {"text_config.q_lora_rank", nullptr, kInvalid, "text_config.q_lora_rank"},
    {"text_config.o_lora_rank", nullptr, kInvalid, "text_config.o_lora_rank"},
    {"text_config.o_groups", nullptr, kInvalid, "text_config.o_groups"},
    {"text_config.swiglu_limit", nullptr, kInvalid, "text_config.swiglu_limit"},
    {"text_config.rms_norm_eps", nullptr, kInvalid, "text_config.rms_norm_eps"},
    {"text_config.max_position_embeddings", nullptr, kInvalid,
     "text_config.max_position_embeddings"},
    {"text_config.rope_theta", nullptr, kInvalid, "text_config.rope_theta"},
    {"text_config.compress_rope_theta", nullptr, kInvalid, "text_config.compress_rope_theta"},
    {"text_config.rope_scaling.factor", nullptr, kInvalid, "text_config.rope_scaling.factor"},
    {"text_config.rope_scaling.original_max_position_embeddings", nullptr, kInvalid,
     "text_config.rope_scaling.original_max_position_embeddings"},
    {"text_config.rope_scaling.rope_type", nullptr, kInvalid, "text_config.rope_scaling.type"},
    {"text_config.n_routed_experts", nullptr, kInvalid, "text_config.n_routed_experts"},
    {"text_config.num_experts_per_tok", nullptr, kInvalid, "text_config.num_experts_per_tok"},
    {"text_config.moe_intermediate_size", nullptr, kInvalid, "text_config.moe_intermediate_size"},
    {"text_config.scoring_func", nullptr, kInvalid, "text_config.scoring_func"},
    {"text_config.norm_topk_prob", nullptr, kInvalid, "text_config.norm_topk_prob"},
    {"text_config.routed_scaling_factor", nullptr, kInvalid, "text_config.routed_scaling_factor"},
    {"text_config.sliding_window", nullptr, kInvalid, "text_config.sliding_window"},
    {"text_config.compress_ratios", nullptr, kInvalid, "text_config.compress_ratios"},
    {"text_config.kv_source_layer_ids", nullptr, kInvalid, "text_config.kv_source_layer_ids"},
    {"text_config.index_source_layer_ids", nullptr, kInvalid, "text_config.index_source_layer_ids"},
    {"text_config.index_n_heads", nullptr, kInvalid, "text_config.index_n_heads"},
    {"text_config.index_head_dim", nullptr, kInvalid, "text_config.index_head_dim"},
    {"text_config.index_topk", nullptr, kInvalid, "text_config.index_topk"},
    {"text_config.candidate_topk_blocks", nullptr, kInvalid, "text_config.candidate_topk_blocks"},
    {"text_config.candidate_block_size", nullptr, kInvalid, "text_config.candidate_block_size"},
    {"text_config.hc_mult", nullptr, kInvalid, "text_config.hc_mult"},
    {"text_config.hc_sinkhorn_iters", nullptr, kInvalid, "text_config.hc_sinkhorn_iters"},
    {"text_config.hc_eps", nullptr, kInvalid, "text_config.hc_eps"},
    {"text_config.engram_layer_ids", nullptr, kInvalid, "text_config.engram_layer_ids"},
    {"text_config.engram_num_embeddings", nullptr, kInvalid, "text_config.engram_num_embeddings"},
    {"text_config.engram_vocab_size", nullptr, kInvalid, "text_config.engram_vocab_size"},
    {"text_config.engram_max_ngram_size", nullptr, kInvalid, "text_config.engram_max_ngram_size"},
    {"text_config.engram_n_heads", nullptr, kInvalid, "text_config.engram_n_heads"},
    {"text_config.engram_head_dim", nullptr, kInvalid, "text_config.engram_head_dim"},
    {"text_config.engram_pad_token_id", nullptr, kInvalid, "text_config.engram_pad_token_id"},
    {"text_config.engram_compressed_vocab_size", nullptr, kInvalid,
     "text_config.engram_compressed_vocab_size"},
    {"text_config.dspark_block_size", nullptr, kInvalid, "text_config.dspark_block_size"},
    {"text_config.dspark_noise_token_id", nullptr, kInvalid, "text_config.dspark_noise_token_id"},
    {"text_config.dspark_markov_rank", nullptr, kInvalid, "text_config.dspark_markov_rank"},
    {"text_config.dspark_target_layer_ids", nullptr, kInvalid,
     "text_config.dspark_target_layer_ids"},
    {"text_config.dspark_n_routed_experts", nullptr, kInvalid,
     "text_config.dspark_n_routed_experts"},
    {"text_config.dspark_num_experts_per_tok", nullptr, kInvalid,
     "text_config.dspark_num_experts_per_tok"},
};
TEST(Config, RefusesMissingKeys) {
  expect_refusals(kMissing);
}

// Other architectures, and switches in the position that is not built.
constexpr Refusal kOtherModels[] = {
    {"model_type", "\"deepseek_v4\"", kUnsupported,
     "model_type: expected \"deepseek_v41\", found \"deepseek_v4\""},
    {"architectures", R"(["LlamaForCausalLM"])", kUnsupported, "LlamaForCausalLM"},
    {"tie_word_embeddings", "true", kUnsupported,
     "tie_word_embeddings: expected false, found true"},
    {"expert_dtype", "\"fp8\"", kUnsupported, "expert_dtype"},
    {"text_config.num_key_value_heads", "2", kUnsupported,
     "text_config.num_key_value_heads: expected 1, found 2"},
    {"text_config.n_shared_experts", "2", kUnsupported, "text_config.n_shared_experts"},
    {"text_config.hidden_act", "\"gelu\"", kUnsupported, "text_config.hidden_act"},
    {"text_config.attention_bias", "true", kUnsupported, "text_config.attention_bias"},
    {"text_config.topk_method", "\"greedy\"", kUnsupported, "text_config.topk_method"},
    {"text_config.scoring_func", "\"tanh\"", kUnsupported, "text_config.scoring_func"},
    {"text_config.rope_scaling.rope_type", "\"linear\"", kUnsupported, "found \"linear\""},
    {"text_config.index_k_source_layer_ids", "[2]", kUnsupported,
     "index_k_source_layer_ids: expected [2,4,6]"},
    {"text_config.hc_shifted", "false", kUnsupported, "text_config.hc_shifted"},
    {"text_config.dspark_target_attn_input", "false", kUnsupported,
     "text_config.dspark_target_attn_input"},
    {"text_config.use_fp4_sparse_kv", "false", kUnsupported, "text_config.use_fp4_sparse_kv"},
    {"quantization_config.quant_method", "\"awq\"", kUnsupported,
     "quantization_config.quant_method"},
    {"quantization_config.activation_scheme", "\"static\"", kUnsupported,
     "quantization_config.activation_scheme"},
    {"quantization_config.weight_block_size", "[128, 128]", kUnsupported,
     "expected [32,32], found [128,128]"},
    {"quantization_config.scale_fmt", "\"fp32\"", kUnsupported, "quantization_config.scale_fmt"},
    {"quantization_config.expert_dtype", "\"fp8\"", kUnsupported,
     "quantization_config.expert_dtype"},
};
TEST(Config, RefusesOtherModels) {
  expect_refusals(kOtherModels);
}

// Values of the wrong kind or out of range.
constexpr Refusal kOutOfRange[] = {
    {"text_config", "[]", kInvalid, "text_config: expected an object"},
    {"quantization_config", "3", kInvalid, "quantization_config: expected an object"},
    {"text_config.vocab_size", "0", kInvalid, "found 0"},
    {"text_config.vocab_size", "-1", kInvalid, "found -1"},
    {"text_config.vocab_size", "16777217", kInvalid, "found 16777217"},
    {"text_config.vocab_size", "1e3", kInvalid, "found 1e3"},
    {"text_config.vocab_size", "704.0", kInvalid, "found 704.0"},
    {"text_config.vocab_size", "\"704\"", kInvalid, "found \"704\""},
    {"text_config.vocab_size", "null", kInvalid, "found null"},
    {"text_config.vocab_size", "99999999999999999999", kInvalid, "found 99999999999999999999"},
    {"text_config.hidden_size", "65", kInvalid, "a multiple of 32, found 65"},
    {"text_config.hidden_size", "1048608", kInvalid, "found 1048608"},
    {"text_config.num_hidden_layers", "513", kInvalid, "from 1 to 512"},
    {"text_config.num_attention_heads", "0", kInvalid, "text_config.num_attention_heads"},
    {"text_config.head_dim", "48", kInvalid, "a multiple of 32"},
    {"text_config.q_lora_rank", "33", kInvalid, "a multiple of 32"},
    {"text_config.o_lora_rank", "16", kInvalid, "text_config.o_lora_rank"},
    {"text_config.index_head_dim", "40", kInvalid, "a multiple of 32"},
    {"text_config.moe_intermediate_size", "100", kInvalid, "a multiple of 32"},
    {"text_config.engram_head_dim", "36", kInvalid, "a multiple of 32"},
    {"text_config.swiglu_limit", "-1", kInvalid, "text_config.swiglu_limit"},
    {"text_config.rms_norm_eps", "-1e-9", kInvalid, "text_config.rms_norm_eps"},
    {"text_config.rms_norm_eps", "1e300", kInvalid, "text_config.rms_norm_eps"},
    {"text_config.max_position_embeddings", "0", kInvalid, "text_config.max_position_embeddings"},
    {"text_config.sliding_window", "0", kInvalid, "text_config.sliding_window"},
    {"text_config.rope_theta", "1", kInvalid, "text_config.rope_theta"},
    {"text_config.rope_scaling", "[]", kInvalid, "text_config.rope_scaling: expected an object"},
    {"text_config.rope_scaling.factor", "0.5", kInvalid, "text_config.rope_scaling.factor"},
    {"text_config.rope_scaling.beta_slow", "64", kInvalid, "text_config.rope_scaling.beta_fast"},
    {"text_config.num_experts_per_tok", "0", kInvalid, "text_config.num_experts_per_tok"},
    {"text_config.norm_topk_prob", "1", kInvalid, "a boolean, found 1"},
    {"text_config.scoring_func", "1", kInvalid, "a string, found 1"},
    {"text_config.gate_temp", "0", kInvalid, "text_config.gate_temp"},
    {"text_config.routed_scaling_factor", "\"1.5\"", kInvalid, "text_config.routed_scaling_factor"},
    {"text_config.index_topk", "0", kInvalid, "text_config.index_topk"},
    {"text_config.hc_mult", "17", kInvalid, "from 1 to 16"},
    {"text_config.hc_sinkhorn_iters", "0", kInvalid, "text_config.hc_sinkhorn_iters"},
    {"text_config.compress_ratios", "[0, 0, 3, 3, 3, 3, 1, 1, 1, 1]", ErrorCode::kUnsupported,
     "compress_ratios[2]: expected a divisor of 128, found 3"},
    {"text_config.compress_ratios", "[0, 0, 2, 2, 2, 2, 1, 1, 1, 65]", kInvalid, "found 65"},
    {"text_config.compress_ratios", "[0, 0, 2, 2, 2, 2, 1, 1, 1]", kInvalid,
     "10 or 13 of them, found 9"},
    {"text_config.compress_ratios", "[0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 0, 1, 0]", kInvalid,
     "every draft stage"},
    {"text_config.kv_source_layer_ids", "2", kInvalid, "a list of integers"},
    {"text_config.kv_source_layer_ids", "[2, 6, 4]", kInvalid,
     "ascending layer numbers, found 4 after 6"},
    {"text_config.kv_source_layer_ids", "[2, 2]", kInvalid, "found 2 after 2"},
    {"text_config.index_source_layer_ids", "[2, 4, 6, 10]", kInvalid, "found 10"},
    {"text_config.index_source_layer_ids", "[-1, 2, 4, 6]", kInvalid, "found -1"},
    {"text_config.engram_layer_ids", "[1, 10]", kInvalid, "found 10"},
    {"text_config.engram_max_ngram_size", "1", kInvalid, "text_config.engram_max_ngram_size"},
    {"text_config.engram_vocab_size", "2147483649", kInvalid, "text_config.engram_vocab_size"},
    {"text_config.engram_pad_token_id", "704", kInvalid, "from 0 to 703"},
    {"text_config.engram_compressed_vocab_size", "705", kInvalid, "from 1 to 704"},
    {"text_config.num_nextn_predict_layers", "65", kInvalid,
     "text_config.num_nextn_predict_layers"},
    {"text_config.dspark_noise_token_id", "704", kInvalid, "from 0 to 703"},
    {"text_config.dspark_target_layer_ids", "[]", kInvalid, "at least one layer"},
    {"text_config.dspark_target_layer_ids", "[7, 8, 10]", kInvalid, "found 10"},
    {"bos_token_id", "704", kInvalid, "from 0 to 703"},
    {"eos_token_id", "[1]", kInvalid, "eos_token_id"},
    {"image_token_id", "704", kInvalid, "from -1 to 703"},
};
TEST(Config, RefusesValuesOutOfRange) {
  expect_refusals(kOutOfRange);
}

// Values that contradict each other.
constexpr Refusal kContradictions[] = {
    {"text_config.o_groups", "3", kInvalid,
     "o_groups: expected a divisor of num_attention_heads (4), found 3"},
    {"text_config.qk_rope_head_dim", "31", kInvalid, "an even number, found 31"},
    {"text_config.qk_rope_head_dim", "66", kInvalid, "at most head_dim (64), found 66"},
    {"text_config.qk_rope_head_dim", "34", kInvalid, "at most index_head_dim (32), found 34"},
    {"text_config.num_experts_per_tok", "9", kInvalid, "at most n_routed_experts (8), found 9"},
    {"text_config.dspark_num_experts_per_tok", "5", kInvalid,
     "at most dspark_n_routed_experts (4), found 5"},
    {"text_config.index_source_layer_ids", "[2, 6, 8]", kUnsupported, "kv_source_layer_ids"},
    {"text_config.index_source_layer_ids", "[1, 2, 4, 6, 8]", kInvalid, "index source 1"},
    {"text_config.kv_source_layer_ids", "[4, 6]", kInvalid, "compress_ratios[2]: expected 0"},
    {"text_config.kv_source_layer_ids", "[2, 4]", kInvalid,
     "compress_ratios[6]: expected 2, as its KV source 4"},
    {"text_config.candidate_source_layer_id", "7", kInvalid, "a layer of index_source_layer_ids"},
    {"text_config.candidate_source_layer_id", "4", kInvalid,
     "no layer of kv_source_layer_ids after it"},
    {"text_config.engram_num_embeddings", "[660]", kInvalid,
     "one number for each of engram_layer_ids (2)"},
    {"text_config.engram_num_embeddings", "[660, 865]", kInvalid,
     "engram_num_embeddings[1]: expected 864, the sum of its primes, found 865"},
    {"text_config.engram_n_heads", "4096", kInvalid, "at most 4096 hash columns"},
};
TEST(Config, RefusesContradictions) {
  expect_refusals(kContradictions);
}

// A model of window layers only, of so many layers and experts.
Json plain_json(int num_layers, int num_experts) {
  Json json = small_json();
  Json ratios = Json::array();
  for (int i = 0; i < num_layers; ++i) ratios.push(Json::integer(0));
  json = edited(json, "text_config.compress_ratios", ratios);
  json = edited(json, "text_config.num_hidden_layers", Json::integer(num_layers));
  json = edited(json, "text_config.n_routed_experts", Json::integer(num_experts));
  for (const char* key : {"kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids"}) {
    json = edited(json, std::string("text_config.") + key, Json::array());
  }
  json = edited(json, "text_config.num_nextn_predict_layers", Json::integer(0));
  return edited(json, "text_config.candidate_source_layer_id", std::nullopt);
}

TEST(Config, WindowLayersOnly) {
  const ModelConfig c = parsed(plain_json(64, 4096));
  EXPECT_EQ(c.candidate_source_layer_id, -1);
  EXPECT_EQ(c.kv_source_of(3), -1);
  EXPECT_EQ(c.engram_columns(), 0);
}

TEST(Config, RefusesTooManyExpertsInAll) {
  const auto config = parse_config(plain_json(65, 4096).dump());
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message,
              HasSubstr("at most 262144 experts over all layers, found 266240"));
}

TEST(Config, WhatIsNotJsonIsCorrupt) {
  for (const char* text : {"", "{", "[]", "3", "{\"a\": 1, \"a\": 2}", "{\"a\": \"\xFF\"}"}) {
    const auto config = parse_config(text);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kCorruptData) << text;
  }
  EXPECT_EQ(parse_config(std::string(100'000, '[')).error().code, ErrorCode::kCorruptData);
}

// docs/formats.md; the released tables.
TEST(EngramPrimes, AreTheReleasedOnes) {
  const auto primes = engram_primes(2, 4, 8, 16'000'000);
  ASSERT_EQ(primes.size(), 2U);
  EXPECT_THAT(primes[0], ElementsAre(ElementsAre(16000057, 16000079, 16000081, 16000097, 16000121,
                                                 16000129, 16000133, 16000183),
                                     ElementsAre(16000189, 16000207, 16000211, 16000253, 16000277,
                                                 16000289, 16000307, 16000321),
                                     ElementsAre(16000339, 16000381, 16000393, 16000399, 16000403,
                                                 16000409, 16000447, 16000463)));
  EXPECT_THAT(primes[1], ElementsAre(ElementsAre(16000477, 16000487, 16000499, 16000507, 16000511,
                                                 16000573, 16000609, 16000627),
                                     ElementsAre(16000667, 16000669, 16000693, 16000697, 16000711,
                                                 16000729, 16000759, 16000769),
                                     ElementsAre(16000781, 16000799, 16000813, 16000819, 16000841,
                                                 16000877, 16000879, 16000889)));
}

bool has_divisor(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return true;
  }
  return n < 2;
}

TEST(EngramPrimes, AgreeWithTrialDivision) {
  for (const int64_t start :
       {int64_t{1}, int64_t{2}, int64_t{1369}, int64_t{65536}, int64_t{1} << 31}) {
    SCOPED_TRACE(start);
    int64_t n = start;
    const auto primes = engram_primes(1, 2, start < 10 ? 500 : 20, start);
    for (const int64_t prime : primes[0][0]) {
      while (has_divisor(n)) ++n;
      EXPECT_EQ(prime, n++);
    }
  }
}

}  // namespace
}  // namespace stoker
