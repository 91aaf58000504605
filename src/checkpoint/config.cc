// Reads config.json key by key; docs/formats.md has the table of keys.
#include "checkpoint/config.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "checkpoint/config_checks.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/json_text.h"

namespace stoker {
namespace {

// Upper bounds, far above any V4.1 model: products of three sizes fit int64, of two int32.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
constexpr int64_t kMaxRank = int64_t{1} << 16;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxRatio = 64;
constexpr int64_t kMaxStreams = 16;
constexpr int64_t kMaxIterations = 1000;
constexpr int64_t kMaxPosition = int64_t{1} << 24;  // beyond it float32 positions are not exact
constexpr int64_t kMaxEngramVocab = int64_t{1} << 31;
constexpr int64_t kMaxEngramRows = int64_t{1} << 44;
constexpr int64_t kMaxNgram = 16;
constexpr int64_t kMaxDraft = 256;
constexpr int64_t kMaxStages = 64;
constexpr int64_t kMaxBlocks = int64_t{1} << 16;
constexpr double kMinTheta = 1.001;  // its logarithm divides
constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxReal = 1e30;
constexpr double kMinPositive = 1e-30;

constexpr size_t kMaxConfigDepth = 16;
constexpr size_t kMaxValues = 100'000;

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;

Json text_json(const char* text) {
  return Json::string(text);
}

// The architecture, and switches that this engine has in one position only.
void check_model_type(ConfigReader& top) {
  if (const Json* type = top.find_value("model_type")) {
    if (type->as_string() != "deepseek_v41" && type->as_string() != "deepseek_v41_text") {
      top.fail(ErrorCode::kUnsupported, "model_type", "\"deepseek_v41\"", found(*type));
    }
  }
  top.require("architectures", Json::array({text_json("DeepseekV41ForCausalLM")}));
  top.require("tie_word_embeddings", Json::boolean(false));
}

void check_switches(ConfigReader& text) {
  text.require("num_key_value_heads", Json::integer(1));
  text.require("n_shared_experts", Json::integer(1));
  text.require("hidden_act", text_json("silu"));
  text.require("attention_bias", Json::boolean(false));
  text.require("tie_word_embeddings", Json::boolean(false));
  text.require("topk_method", text_json("noaux_tc"));
  for (const char* key : {"hc_shifted", "dspark_target_attn_input", "use_fp4_sparse_kv"}) {
    text.require(key, Json::boolean(true));
  }
}

void check_quantization(ConfigReader& quantization) {
  quantization.require("quant_method", text_json("fp8"));
  quantization.require("activation_scheme", text_json("dynamic"));
  quantization.require("weight_block_size", Json::array({Json::integer(32), Json::integer(32)}));
  quantization.require("scale_fmt", text_json("ue8m0"));
  quantization.require("fmt", text_json("e4m3"));
  quantization.require("expert_dtype", text_json("fp4"));
}

void read_tokens(ConfigReader& top, ModelConfig& c) {
  c.bos_token_id = top.integer_or("bos_token_id", 0, 0, c.vocab_size - 1);
  c.eos_token_id = top.integer_or("eos_token_id", 1, 0, c.vocab_size - 1);
  c.image_token_id = top.integer_or("image_token_id", -1, -1, c.vocab_size - 1);
}

void read_sizes(ConfigReader& text, ModelConfig& c) {
  c.vocab_size = text.integer("vocab_size", 2, kMaxVocab);
  c.hidden_size = text.multiple_of_32({"hidden_size", "dim"}, kMaxWidth);
  c.num_hidden_layers = text.integer({"num_hidden_layers", "n_layers"}, 1, kMaxLayers);
  c.num_attention_heads = text.integer({"num_attention_heads", "n_heads"}, 1, kMaxHeads);
  c.head_dim = text.multiple_of_32("head_dim", kMaxHeadDim);
  c.qk_rope_head_dim = text.integer({"qk_rope_head_dim", "rope_head_dim"}, 2, kMaxHeadDim);
  c.q_lora_rank = text.multiple_of_32("q_lora_rank", kMaxRank);
  c.o_lora_rank = text.multiple_of_32("o_lora_rank", kMaxRank);
  c.o_groups = text.integer("o_groups", 1, kMaxHeads);
  c.sliding_window = text.integer({"sliding_window", "window_size"}, 1, kMaxWidth);
  c.max_position_embeddings =
      text.integer({"max_position_embeddings", "max_seq_len"}, 1, kMaxPosition);
  c.swiglu_limit = static_cast<float>(text.real("swiglu_limit", 0, kMaxReal));
  c.rms_norm_eps = static_cast<float>(text.real({"rms_norm_eps", "norm_eps"}, 0, 1));
}

// The four numbers of YaRN under the names that `keys` gives them.
struct YarnKeys {
  ConfigKey factor;
  ConfigKey original;
};

YarnConfig read_yarn(ConfigReader& from, const YarnKeys& keys) {
  YarnConfig yarn;
  yarn.original_max_position_embeddings = from.real(keys.original, 0, kMaxReal);
  if (yarn.original_max_position_embeddings == 0) return {};
  yarn.factor = from.real(keys.factor, 1, kMaxFactor);
  yarn.beta_fast = from.real_or("beta_fast", 32, kMinPositive, kMaxFactor);
  yarn.beta_slow = from.real_or("beta_slow", 1, kMinPositive, kMaxFactor);
  if (yarn.beta_fast < yarn.beta_slow) {
    from.fail(kInvalid, "beta_fast", "at least beta_slow", Json::real(yarn.beta_fast).dump());
  }
  return yarn;
}

// An object that names its rope_type, which may be spelled `type`.
YarnConfig read_typed_yarn(ConfigReader& from) {
  const ConfigKey type{"type", "rope_type"};
  const std::string name = from.text(type);
  if (name == "default") return {};
  if (name == "yarn") return read_yarn(from, {"factor", "original_max_position_embeddings"});
  from.fail(ErrorCode::kUnsupported, type, "\"yarn\" or \"default\"", json_quote(name));
  return {};
}

// The base of one kind of layers: of its object in rope_parameters, or else under its own key.
double read_theta(ConfigReader& nested, ConfigReader& text, ConfigKey key) {
  ConfigReader& from = nested.find_value("rope_theta") != nullptr ? nested : text;
  return from.real(&from == &nested ? ConfigKey("rope_theta") : key, kMinTheta, kMaxTheta);
}

void read_nested_rope(ConfigReader& text, const Json& main, const Json& compress, ModelConfig& c) {
  ConfigReader main_reader = text.child(main, "rope_parameters.main");
  ConfigReader compress_reader = text.child(compress, "rope_parameters.compress");
  main_reader.require({"type", "rope_type"}, text_json("default"));
  c.rope_theta = read_theta(main_reader, text, "rope_theta");
  c.compress_rope_theta = read_theta(compress_reader, text, "compress_rope_theta");
  c.rope_scaling = read_typed_yarn(compress_reader);
  text.adopt(main_reader);
  text.adopt(compress_reader);
}

// rope_parameters {main, compress}; else the short keys; else rope_scaling.
void read_rope(ConfigReader& text, ModelConfig& c) {
  const Json* nested = text.find_value("rope_parameters");
  const Json* main = nested != nullptr ? nested->find("main") : nullptr;
  const Json* compress = nested != nullptr ? nested->find("compress") : nullptr;
  if (main != nullptr && compress != nullptr && main->is_object() && compress->is_object()) {
    return read_nested_rope(text, *main, *compress, c);
  }
  c.rope_theta = text.real("rope_theta", kMinTheta, kMaxTheta);
  c.compress_rope_theta = text.real("compress_rope_theta", kMinTheta, kMaxTheta);
  const Json* scaling = text.find_value("rope_scaling");
  if (text.find_value("rope_factor") != nullptr || text.find_value("original_seq_len") != nullptr) {
    c.rope_scaling = read_yarn(text, {"rope_factor", "original_seq_len"});
  } else if (scaling != nullptr) {
    if (!scaling->is_object())
      text.fail(kInvalid, "rope_scaling", "an object or null", found(*scaling));
    ConfigReader reader = text.child(*scaling, "rope_scaling");
    c.rope_scaling = read_typed_yarn(reader);
    text.adopt(reader);
  } else if (nested != nullptr) {
    text.fail(kInvalid, "rope_parameters",
              "objects `main` and `compress` in it, or rope_scaling beside it", found(*nested));
  }
}

void read_experts(ConfigReader& text, ModelConfig& c) {
  c.n_routed_experts = text.integer("n_routed_experts", 1, kMaxExperts);
  c.n_shared_experts = 1;
  c.num_experts_per_tok =
      text.integer({"num_experts_per_tok", "n_activated_experts"}, 1, kMaxExperts);
  c.moe_intermediate_size =
      text.multiple_of_32({"moe_intermediate_size", "moe_inter_dim"}, kMaxWidth);
  c.norm_topk_prob = text.boolean("norm_topk_prob");
  c.routed_scaling_factor = static_cast<float>(
      text.real({"routed_scaling_factor", "route_scale"}, kMinPositive, kMaxReal));
  c.gate_temp = static_cast<float>(text.real_or("gate_temp", 1, kMinPositive, kMaxReal));
  const ConfigKey key{"scoring_func", "score_func"};
  const std::string name = text.text(key);
  if (name == "sqrtsoftplus") {
    c.scoring_func = ScoringFunc::kSqrtSoftplus;
  } else if (name == "sigmoid") {
    c.scoring_func = ScoringFunc::kSigmoid;
  } else if (name == "softmax") {
    c.scoring_func = ScoringFunc::kSoftmax;
  } else {
    text.fail(ErrorCode::kUnsupported, key, "\"sqrtsoftplus\", \"sigmoid\" or \"softmax\"",
              json_quote(name));
  }
}

// One ratio for each layer; the list may go on with a 0 for each draft stage.
void read_ratios(ConfigReader& text, ModelConfig& c) {
  const auto ratios = text.integers("compress_ratios", 0, kMaxRatio);
  const auto num_layers = static_cast<size_t>(c.num_hidden_layers);
  const auto num_stages = static_cast<size_t>(c.num_nextn_predict_layers);
  if (ratios.size() != num_layers && ratios.size() != num_layers + num_stages) {
    text.fail(
        kInvalid, "compress_ratios",
        std::to_string(num_layers) + " or " + std::to_string(num_layers + num_stages) + " of them",
        std::to_string(ratios.size()));
    c.compress_ratios.resize(num_layers);
    return;
  }
  for (size_t i = num_layers; i < ratios.size(); ++i) {
    if (ratios[i] != 0) {
      text.fail(kInvalid, "compress_ratios", "0 for every draft stage", std::to_string(ratios[i]));
    }
  }
  c.compress_ratios.assign(ratios.begin(),
                           ratios.begin() + static_cast<std::ptrdiff_t>(num_layers));
}

// Missing: the last KV source, as the first public implementation has it. Null or negative: no
// second level.
void read_candidates(ConfigReader& text, ModelConfig& c) {
  const ConfigKey key{"candidate_source_layer_id", "candidate_source_layer"};
  const Json* value = text.find(key);
  if (value == nullptr) {
    c.candidate_source_layer_id = c.kv_source_layer_ids.empty() ? -1 : c.kv_source_layer_ids.back();
  } else if (!value->is_null()) {
    c.candidate_source_layer_id =
        std::max(-1, text.integer(key, INT32_MIN, c.num_hidden_layers - 1));
  }
  if (c.candidate_source_layer_id < 0) return;
  c.candidate_topk_blocks = text.integer("candidate_topk_blocks", 1, kMaxBlocks);
  c.candidate_block_size = text.integer("candidate_block_size", 1, kMaxHeadDim);
}

void read_schedule(ConfigReader& text, ModelConfig& c) {
  read_ratios(text, c);
  c.kv_source_layer_ids =
      text.layers({"kv_source_layer_ids", "kv_source_layers"}, c.num_hidden_layers);
  c.index_source_layer_ids =
      text.layers({"index_source_layer_ids", "index_source_layers"}, c.num_hidden_layers);
  c.index_n_heads = text.integer("index_n_heads", 1, kMaxHeads);
  c.index_head_dim = text.multiple_of_32("index_head_dim", kMaxHeadDim);
  c.index_topk = text.integer("index_topk", 1, kMaxPosition);
  read_candidates(text, c);
  std::vector<Json> key_sources;
  for (const int32_t layer : c.kv_source_layer_ids) key_sources.push_back(Json::integer(layer));
  text.require("index_k_source_layer_ids", Json::array(std::move(key_sources)));
}

void read_streams(ConfigReader& text, ModelConfig& c) {
  c.hc_mult = text.integer("hc_mult", 1, kMaxStreams);
  c.hc_sinkhorn_iters = text.integer("hc_sinkhorn_iters", 1, kMaxIterations);
  c.hc_eps = static_cast<float>(text.real("hc_eps", 0, 1));
}

// No default: every one of these constants decides which rows a token looks up.
void read_engram(ConfigReader& text, ModelConfig& c) {
  c.engram_layer_ids = text.layers("engram_layer_ids", c.num_hidden_layers);
  if (c.engram_layer_ids.empty()) return;
  c.engram_num_embeddings = text.integers("engram_num_embeddings", 1, kMaxEngramRows);
  c.engram_vocab_size = text.long_integer("engram_vocab_size", 1, kMaxEngramVocab);
  c.engram_max_ngram_size = text.integer("engram_max_ngram_size", 2, kMaxNgram);
  c.engram_n_heads = text.integer("engram_n_heads", 1, kMaxHeads);
  c.engram_head_dim = text.multiple_of_32("engram_head_dim", kMaxHeadDim);
  c.engram_pad_token_id =
      text.integer({"engram_pad_token_id", "engram_pad_id"}, 0, c.vocab_size - 1);
  c.engram_compressed_vocab_size = text.integer("engram_compressed_vocab_size", 1, c.vocab_size);
}

void read_draft(ConfigReader& text, ModelConfig& c) {
  if (c.num_nextn_predict_layers == 0) return;
  c.dspark_block_size = text.integer("dspark_block_size", 1, kMaxDraft);
  c.dspark_noise_token_id = text.integer("dspark_noise_token_id", 0, c.vocab_size - 1);
  c.dspark_markov_rank = text.integer("dspark_markov_rank", 1, kMaxRank);
  c.dspark_target_layer_ids = text.layers("dspark_target_layer_ids", c.num_hidden_layers);
  if (c.dspark_target_layer_ids.empty()) {
    text.fail(kInvalid, "dspark_target_layer_ids", "at least one layer", "[]");
  }
  c.dspark_n_routed_experts = text.integer("dspark_n_routed_experts", 1, kMaxExperts);
  c.dspark_num_experts_per_tok =
      text.integer({"dspark_num_experts_per_tok", "dspark_n_activated_experts"}, 1, kMaxExperts);
}

void read_text(ConfigReader& text, ModelConfig& c) {
  check_switches(text);
  read_sizes(text, c);
  read_rope(text, c);
  read_experts(text, c);
  c.num_nextn_predict_layers =
      text.integer_or({"num_nextn_predict_layers", "n_mtp_layers"}, 0, 0, kMaxStages);
  read_schedule(text, c);
  read_streams(text, c);
  read_engram(text, c);
  read_draft(text, c);
}

// The member `name`, an object, or null where there is none.
const Json* object_member(ConfigReader& reader, const char* name) {
  const Json* value = reader.find_value(name);
  if (value == nullptr || value->is_object()) return value;
  reader.fail(kInvalid, name, "an object", found(*value));
  return nullptr;
}

// The largest of `ascending` that is at most `layer`, or -1.
int32_t last_at_or_before(const std::vector<int32_t>& ascending, int32_t layer) {
  const auto after = std::upper_bound(ascending.begin(), ascending.end(), layer);
  return after == ascending.begin() ? -1 : *(after - 1);
}

}  // namespace

int32_t ModelConfig::kv_source_of(int32_t layer) const {
  if (compress_ratios[static_cast<size_t>(layer)] == 0) return -1;
  return last_at_or_before(kv_source_layer_ids, layer);
}

int32_t ModelConfig::index_source_of(int32_t layer) const {
  if (compress_ratios[static_cast<size_t>(layer)] == 0) return -1;
  return last_at_or_before(index_source_layer_ids, layer);
}

bool ModelConfig::is_kv_source(int32_t layer) const {
  return std::binary_search(kv_source_layer_ids.begin(), kv_source_layer_ids.end(), layer);
}

bool ModelConfig::is_index_source(int32_t layer) const {
  return std::binary_search(index_source_layer_ids.begin(), index_source_layer_ids.end(), layer);
}

int32_t ModelConfig::engram_index_of(int32_t layer) const {
  const auto found_at = std::find(engram_layer_ids.begin(), engram_layer_ids.end(), layer);
  return found_at == engram_layer_ids.end()
             ? -1
             : static_cast<int32_t>(found_at - engram_layer_ids.begin());
}

Result<ModelConfig> parse_config(std::string_view text_of_file) {
  TRY_ASSIGN(const Json json, parse_json_object(text_of_file, kMaxConfigDepth, kMaxValues));
  ModelConfig c;
  ConfigReader top(json, "");
  check_model_type(top);
  top.require("expert_dtype", text_json("fp4"));
  const Json* composite = object_member(top, "text_config");
  ConfigReader text(composite != nullptr ? *composite : json,
                    composite != nullptr ? "text_config." : "");
  if (const Json* object = object_member(top, "quantization_config")) {
    ConfigReader quantization = top.child(*object, "quantization_config");
    check_quantization(quantization);
    top.adopt(quantization);
  }
  text.adopt(top);
  read_text(text, c);
  read_tokens(top, c);
  text.adopt(top);
  if (text.error()) return *text.error();
  if (auto error = check_config(c)) return *std::move(error);
  return c;
}

}  // namespace stoker
