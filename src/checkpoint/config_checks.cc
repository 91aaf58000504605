#include "checkpoint/config_checks.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace stoker {
namespace {

// A load takes time in proportion to these.
constexpr int64_t kMaxEngramColumns = 4096;
constexpr int64_t kMaxExpertsInAll = int64_t{1} << 18;
constexpr int32_t kBlockTokens = 128;  // a block of the state holds whole groups (kv/kv_shape.h)

using MaybeError = std::optional<Error>;

Error contradiction(const std::string& key, const std::string& expected, const std::string& found) {
  return {ErrorCode::kInvalidArgument, key + ": expected " + expected + ", found " + found, ""};
}

bool contains(const std::vector<int32_t>& ascending, int32_t value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

std::string named(const char* key, int64_t value) {
  return std::string(key) + " (" + std::to_string(value) + ")";
}

MaybeError check_at_most(const char* key, int64_t value, const char* limit_key, int64_t limit) {
  if (value <= limit) return std::nullopt;
  return contradiction(key, "at most " + named(limit_key, limit), std::to_string(value));
}

MaybeError check_heads(const ModelConfig& c) {
  if (c.num_attention_heads % c.o_groups != 0) {
    return contradiction("o_groups",
                         "a divisor of " + named("num_attention_heads", c.num_attention_heads),
                         std::to_string(c.o_groups));
  }
  if (c.qk_rope_head_dim % 2 != 0) {
    return contradiction("qk_rope_head_dim", "an even number", std::to_string(c.qk_rope_head_dim));
  }
  if (auto e = check_at_most("qk_rope_head_dim", c.qk_rope_head_dim, "head_dim", c.head_dim))
    return e;
  return check_at_most("qk_rope_head_dim", c.qk_rope_head_dim, "index_head_dim", c.index_head_dim);
}

MaybeError check_experts(const ModelConfig& c) {
  const int64_t in_all = int64_t{c.num_hidden_layers} * c.n_routed_experts;
  if (in_all > kMaxExpertsInAll) {
    return contradiction("n_routed_experts",
                         "at most " + std::to_string(kMaxExpertsInAll) + " experts over all layers",
                         std::to_string(in_all));
  }
  if (auto e = check_at_most("num_experts_per_tok", c.num_experts_per_tok, "n_routed_experts",
                             c.n_routed_experts)) {
    return e;
  }
  return check_at_most("dspark_num_experts_per_tok", c.dspark_num_experts_per_tok,
                       "dspark_n_routed_experts", c.dspark_n_routed_experts);
}

// The sources named by kv_source_layer_ids and index_source_layer_ids.
MaybeError check_sources(const ModelConfig& c) {
  for (const int32_t layer : c.kv_source_layer_ids) {
    if (contains(c.index_source_layer_ids, layer)) continue;
    Error error =
        contradiction("kv_source_layer_ids", "every layer to be in index_source_layer_ids too",
                      std::to_string(layer));
    error.code = ErrorCode::kUnsupported;
    return error;
  }
  for (const int32_t layer : c.index_source_layer_ids) {
    if (c.compress_ratios[static_cast<size_t>(layer)] > 0) continue;
    return contradiction("compress_ratios",
                         "a ratio above 0 for index source " + std::to_string(layer), "0");
  }
  return std::nullopt;
}

MaybeError check_ratios(const ModelConfig& c) {
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const int32_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
    if (ratio == 0) continue;
    const std::string at = "compress_ratios[" + std::to_string(layer) + "]";
    const int32_t source = c.kv_source_of(layer);
    if (source < 0) {
      return contradiction(at, "0, with no layer of kv_source_layer_ids at or before it",
                           std::to_string(ratio));
    }
    if (kBlockTokens % ratio != 0) {
      Error error =
          contradiction(at, "a divisor of " + std::to_string(kBlockTokens), std::to_string(ratio));
      error.code = ErrorCode::kUnsupported;
      return error;
    }
    const int32_t source_ratio = c.compress_ratios[static_cast<size_t>(source)];
    if (ratio != source_ratio) {
      return contradiction(
          at, std::to_string(source_ratio) + ", as its KV source " + std::to_string(source),
          std::to_string(ratio));
    }
  }
  return std::nullopt;
}

// The candidates are blocks of the source's keys: index sources after it must score against the
// same keys.
MaybeError check_candidates(const ModelConfig& c) {
  const int32_t source = c.candidate_source_layer_id;
  if (source < 0) return std::nullopt;
  if (!contains(c.index_source_layer_ids, source)) {
    return contradiction("candidate_source_layer_id",
                         "a layer of index_source_layer_ids or a negative number",
                         std::to_string(source));
  }
  if (source < c.kv_source_layer_ids.back()) {
    return contradiction("candidate_source_layer_id",
                         "no layer of kv_source_layer_ids after it (the last is " +
                             std::to_string(c.kv_source_layer_ids.back()) + ")",
                         std::to_string(source));
  }
  return std::nullopt;
}

MaybeError check_engram(const ModelConfig& c) {
  if (c.engram_layer_ids.empty()) return std::nullopt;
  const size_t num_tables = c.engram_layer_ids.size();
  if (c.engram_num_embeddings.size() != num_tables) {
    return contradiction(
        "engram_num_embeddings",
        named("one number for each of engram_layer_ids", static_cast<int64_t>(num_tables)),
        std::to_string(c.engram_num_embeddings.size()) + " of them");
  }
  const auto num_columns =
      static_cast<int64_t>(num_tables) * (c.engram_max_ngram_size - 1) * c.engram_n_heads;
  if (num_columns > kMaxEngramColumns) {
    return contradiction("engram_n_heads",
                         "at most " + std::to_string(kMaxEngramColumns) +
                             " hash columns over all layers and n-gram sizes",
                         std::to_string(num_columns));
  }
  const auto primes =
      engram_primes(num_tables, c.engram_max_ngram_size, c.engram_n_heads, c.engram_vocab_size);
  for (size_t table = 0; table < num_tables; ++table) {
    int64_t rows = 0;
    for (const auto& of_size : primes[table])
      rows = std::accumulate(of_size.begin(), of_size.end(), rows);
    if (c.engram_num_embeddings[table] == rows) continue;
    return contradiction("engram_num_embeddings[" + std::to_string(table) + "]",
                         std::to_string(rows) + ", the sum of its primes",
                         std::to_string(c.engram_num_embeddings[table]));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> check_config(const ModelConfig& c) {
  for (const auto check :
       {check_heads, check_experts, check_sources, check_ratios, check_candidates, check_engram}) {
    if (auto error = check(c)) return error;
  }
  return std::nullopt;
}

}  // namespace stoker
