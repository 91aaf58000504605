#include "checkpoint/inventory.h"

#include <utility>

#include "base/check.h"

namespace stoker {
namespace {

constexpr int64_t kTile = 32;

int64_t tiles(int64_t size) {
  return (size + kTile - 1) / kTile;
}

// Walks the model. Where there is no ModelWeights, places are taken in a scratch block and not
// told.
class Walk {
 public:
  Walk(const ModelConfig& config, bool has_places,
       const std::function<void(const WeightSpec&)>& visit)
      : c_(config), has_places_(has_places), visit_(visit) {}

  void globals(ModelWeights& weights) {
    matrix("embed.weight", WeightFormat::kBf16, c_.vocab_size, c_.hidden_size, weights.embed);
  }

  void head(ModelWeights& weights) {
    vector("norm.weight", c_.hidden_size, weights.norm);
    matrix("head.weight", WeightFormat::kBf16, c_.vocab_size, c_.hidden_size, weights.head);
  }

  void layer(int32_t index, BlockWeights& block) {
    const std::string prefix = "layers." + std::to_string(index) + ".";
    const int32_t table = c_.engram_index_of(index);
    if (table >= 0) engram(prefix + "engram.", table, block.engram);
    residual(prefix, block);
    attention(prefix + "attn.", block.attn);
    if (c_.is_kv_source(index)) compressor(prefix + "attn.", index, block.attn);
    if (c_.is_index_source(index)) index_queries(prefix + "attn.", block.attn);
    moe(prefix + "ffn.", c_.n_routed_experts, block.ffn);
  }

  void stage(int32_t index, BlockWeights& block, DraftWeights& draft) {
    const std::string prefix = "mtp." + std::to_string(index) + ".";
    residual(prefix, block);
    attention(prefix + "attn.", block.attn);
    moe(prefix + "ffn.", c_.dspark_n_routed_experts, block.ffn);
    if (index == 0) draft_input(prefix, draft);
    if (index == c_.num_nextn_predict_layers - 1) draft_heads(prefix, draft);
  }

 private:
  void matrix(const std::string& name, WeightFormat format, int64_t rows, int64_t cols,
              Weight& place) {
    put({.name = name, .format = format, .rows = rows, .cols = cols}, place);
  }

  void vector(const std::string& name, int64_t cols, Weight& place,
              WeightFormat format = WeightFormat::kBf16) {
    put({.name = name, .format = format, .rows = 1, .cols = cols, .is_vector = true}, place);
  }

  void put(WeightSpec spec, Weight& place) {
    spec.place = has_places_ ? &place : nullptr;
    visit_(spec);
  }

  void residual(const std::string& prefix, BlockWeights& block) {
    vector(prefix + "attn_norm.weight", c_.hidden_size, block.attn_norm);
    vector(prefix + "ffn_norm.weight", c_.hidden_size, block.ffn_norm);
    site(prefix + "hc_attn_", block.hc_attn);
    site(prefix + "hc_ffn_", block.hc_ffn);
  }

  void site(const std::string& prefix, SiteWeights& site) {
    const int64_t hc = c_.hc_mult;
    matrix(prefix + "fn", WeightFormat::kF32, (2 + hc) * hc, hc * c_.hidden_size, site.fn);
    vector(prefix + "base", (2 + hc) * hc, site.base, WeightFormat::kF32);
    vector(prefix + "scale", 3, site.scale, WeightFormat::kF32);
  }

  void attention(const std::string& prefix, AttentionWeights& attn) {
    const int64_t d = c_.hidden_size;
    const int64_t query = int64_t{c_.num_attention_heads} * c_.head_dim;
    const int64_t low = int64_t{c_.o_groups} * c_.o_lora_rank;
    constexpr WeightFormat kFp8 = WeightFormat::kFp8Tile;
    vector(prefix + "attn_sink", c_.num_attention_heads, attn.attn_sink, WeightFormat::kF32);
    matrix(prefix + "wq_a.weight", kFp8, c_.q_lora_rank, d, attn.wq_a);
    vector(prefix + "q_norm.weight", c_.q_lora_rank, attn.q_norm);
    matrix(prefix + "wq_b.weight", kFp8, query, c_.q_lora_rank, attn.wq_b);
    matrix(prefix + "wkv.weight", kFp8, c_.head_dim, d, attn.wkv);
    vector(prefix + "kv_norm.weight", c_.head_dim, attn.kv_norm);
    matrix(prefix + "wo_a.weight", kFp8, low, query / c_.o_groups, attn.wo_a);
    matrix(prefix + "wo_b.weight", kFp8, d, low, attn.wo_b);
  }

  void compressor(const std::string& prefix, int32_t layer, AttentionWeights& attn) {
    constexpr WeightFormat kBf16 = WeightFormat::kBf16;
    const int64_t dim = c_.head_dim;
    matrix(prefix + "compressor.wkv.weight", kBf16, dim, c_.hidden_size, attn.compressor_wkv);
    if (c_.compress_ratios[static_cast<size_t>(layer)] > 1) {
      matrix(prefix + "compressor.wgate.weight", kBf16, dim, c_.hidden_size, attn.compressor_wgate);
    }
    vector(prefix + "compressor.norm.weight", dim, attn.compressor_norm);
    matrix(prefix + "indexer.wk.weight", kBf16, c_.index_head_dim, dim, attn.indexer_wk);
    vector(prefix + "indexer.k_norm.weight", c_.index_head_dim, attn.indexer_k_norm);
  }

  void index_queries(const std::string& prefix, AttentionWeights& attn) {
    matrix(prefix + "indexer.wq_b.weight", WeightFormat::kFp8Tile,
           int64_t{c_.index_n_heads} * c_.index_head_dim, c_.q_lora_rank, attn.indexer_wq_b);
    matrix(prefix + "indexer.weights_proj.weight", WeightFormat::kBf16, c_.index_n_heads,
           c_.hidden_size, attn.indexer_weights_proj);
  }

  void moe(const std::string& prefix, int32_t num_experts, MoeWeights& ffn) {
    matrix(prefix + "gate.weight", WeightFormat::kBf16, num_experts, c_.hidden_size,
           ffn.gate_weight);
    vector(prefix + "gate.bias", num_experts, ffn.gate_bias, WeightFormat::kF32);
    put({.name = prefix + "gate.bias_vl",
         .format = WeightFormat::kF32,
         .rows = 1,
         .cols = num_experts,
         .is_vector = true,
         .may_be_absent = c_.image_token_id < 0},
        ffn.gate_bias_vl);
    if (has_places_) ffn.experts.resize(static_cast<size_t>(num_experts));
    ExpertWeights scratch;
    for (int32_t e = 0; e < num_experts; ++e) {
      ExpertWeights& place = has_places_ ? ffn.experts[static_cast<size_t>(e)] : scratch;
      expert(prefix + "experts." + std::to_string(e) + ".", WeightFormat::kFp4Group, place);
    }
    expert(prefix + "shared_experts.", WeightFormat::kFp8Tile, ffn.shared_experts);
  }

  void expert(const std::string& prefix, WeightFormat format, ExpertWeights& expert) {
    const int64_t width = c_.moe_intermediate_size;
    matrix(prefix + "w1.weight", format, width, c_.hidden_size, expert.w1);
    matrix(prefix + "w2.weight", format, c_.hidden_size, width, expert.w2);
    matrix(prefix + "w3.weight", format, width, c_.hidden_size, expert.w3);
  }

  void engram(const std::string& prefix, int32_t table, EngramWeights& engram) {
    const int64_t hc = c_.hc_mult;
    const int64_t columns = int64_t{c_.engram_columns()} * c_.engram_head_dim;
    matrix(prefix + "embed.weight", WeightFormat::kFp8Group,
           c_.engram_num_embeddings[static_cast<size_t>(table)], c_.engram_head_dim, engram.embed);
    matrix(prefix + "wkv.weight", WeightFormat::kFp8Tile, (hc + 1) * c_.hidden_size, columns,
           engram.wkv);
    for (const auto& [leaf, place] :
         {std::pair("q_weight", &engram.q_weight), std::pair("k_weight", &engram.k_weight)}) {
      put({.name = prefix + leaf, .rows = hc, .cols = c_.hidden_size, .f32_allowed = true}, *place);
    }
  }

  void draft_input(const std::string& prefix, DraftWeights& draft) {
    const int64_t d = c_.hidden_size;
    const auto targets = static_cast<int64_t>(c_.dspark_target_layer_ids.size());
    matrix(prefix + "main_proj.weight", WeightFormat::kFp8Tile, d, targets * d, draft.main_proj);
    vector(prefix + "main_norm.weight", d, draft.main_norm);
  }

  void draft_heads(const std::string& prefix, DraftWeights& draft) {
    constexpr WeightFormat kBf16 = WeightFormat::kBf16;
    const int64_t rank = c_.dspark_markov_rank;
    vector(prefix + "norm.weight", c_.hidden_size, draft.norm);
    matrix(prefix + "markov_head.embed.weight", kBf16, c_.vocab_size, rank,
           draft.markov_head_embed);
    matrix(prefix + "markov_head.head.weight", kBf16, c_.vocab_size, rank, draft.markov_head_head);
    matrix(prefix + "confidence_head.proj.weight", kBf16, 1, c_.hidden_size + rank,
           draft.confidence_head_proj);
  }

  const ModelConfig& c_;
  bool has_places_;
  const std::function<void(const WeightSpec&)>& visit_;
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_vision(std::string_view name) {
  return name.starts_with("vision.") || name.starts_with("aligner.") || name == "image_start" ||
         name == "image_end" || name == "image_newline" || name == "image_pad";
}

// mtp.N.embed.weight and mtp.N.head.weight: copies of the backbone's, from older layouts.
bool is_draft_copy(std::string_view name) {
  if (!name.starts_with("mtp.")) return false;
  name.remove_prefix(4);
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return false;
  name.remove_prefix(digits);
  return name == ".embed.weight" || name == ".head.weight";
}

}  // namespace

void visit_weights(const ModelConfig& config, ModelWeights* weights,
                   const std::function<void(const WeightSpec&)>& visit) {
  ModelWeights scratch;
  BlockWeights scratch_block;
  ModelWeights& places = weights != nullptr ? *weights : scratch;
  if (weights != nullptr) {
    weights->layers.resize(static_cast<size_t>(config.num_hidden_layers));
    weights->mtp.stages.resize(static_cast<size_t>(config.num_nextn_predict_layers));
  }
  const auto block = [&](std::vector<BlockWeights>& blocks, int32_t i) -> BlockWeights& {
    return weights != nullptr ? blocks[static_cast<size_t>(i)] : scratch_block;
  };
  Walk walk(config, weights != nullptr, visit);
  walk.globals(places);
  for (int32_t i = 0; i < config.num_hidden_layers; ++i) walk.layer(i, block(places.layers, i));
  walk.head(places);
  for (int32_t i = 0; i < config.num_nextn_predict_layers; ++i) {
    walk.stage(i, block(places.mtp.stages, i), places.mtp);
  }
}

TensorSpec values_of(const WeightSpec& spec) {
  TensorSpec tensor;
  tensor.name = spec.name;
  tensor.shape = spec.is_vector ? Shape{spec.cols} : Shape{spec.rows, spec.cols};
  switch (spec.format) {
    case WeightFormat::kBf16:
      tensor.dtypes = {DType::kBF16};
      break;
    case WeightFormat::kF32:
      tensor.dtypes = {DType::kF32};
      break;
    case WeightFormat::kFp8Tile:
    case WeightFormat::kFp8Group:
      tensor.dtypes = {DType::kF8E4M3};
      break;
    case WeightFormat::kFp4Group:
      tensor.dtypes = {DType::kI8, DType::kU8};
      tensor.shape = {spec.rows, spec.cols / 2};
      break;
    default:
      CHECK(false, "no file holds packed weights");
  }
  if (spec.f32_allowed) tensor.dtypes.push_back(DType::kF32);
  return tensor;
}

std::optional<TensorSpec> scales_of(const WeightSpec& spec) {
  TensorSpec tensor;
  switch (spec.format) {
    case WeightFormat::kBf16:
    case WeightFormat::kF32:
      return std::nullopt;
    case WeightFormat::kFp8Tile:
      tensor.shape = {tiles(spec.rows), tiles(spec.cols)};
      break;
    case WeightFormat::kFp8Group:
    case WeightFormat::kFp4Group:
      tensor.shape = {spec.rows, tiles(spec.cols)};
      break;
    default:
      CHECK(false, "no file holds packed weights");
  }
  constexpr std::string_view kSuffix = ".weight";
  CHECK(spec.name.ends_with(kSuffix), "a weight with scales is named so");
  tensor.name = spec.name.substr(0, spec.name.size() - kSuffix.size()) + ".scale";
  tensor.dtypes = {DType::kF8E8M0, DType::kU8};
  return tensor;
}

const char* part_of(std::string_view name) {
  if (is_vision(name)) return "vision (unused)";
  if (is_draft_copy(name)) return "draft head (unused)";
  if (name.starts_with("mtp.")) return contains(name, ".experts.") ? "draft experts" : "draft head";
  if (name == "embed.weight") return "embedding";
  if (name == "head.weight" || name == "norm.weight") return "output head";
  if (!name.starts_with("layers.")) return "unknown";
  if (contains(name, ".ffn.experts.")) return "routed experts";
  if (contains(name, ".ffn.shared_experts.")) return "shared experts";
  if (contains(name, ".ffn.gate.")) return "routers";
  if (contains(name, ".engram.embed.")) return "Engram tables";
  if (contains(name, ".engram.")) return "Engram projections";
  if (contains(name, ".attn.compressor.") || contains(name, ".attn.indexer."))
    return "compressors and indexers";
  if (contains(name, ".attn.")) return "attention";
  if (contains(name, ".hc_") || contains(name, "_norm.")) return "residual streams and norms";
  return "unknown";
}

bool is_unused(std::string_view name) {
  return is_vision(name) || is_draft_copy(name);
}

}  // namespace stoker
