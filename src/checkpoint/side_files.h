// The small JSON files beside the weights: generation_config.json, tokenizer_config.json and the
// index of the shards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "stoker/result.h"

namespace stoker {

/// generation_config.json, where present. `do_sample: false` reads as temperature 0.
struct GenerationConfig {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::vector<int32_t> eos_token_ids;  ///< of the file; empty where it says nothing
};

/// Errors: kCorruptData for what is no JSON object, kInvalidArgument for values out of range,
/// naming the key.
Result<GenerationConfig> parse_generation_config(std::string_view text, int32_t vocab_size);

/// Checks that tokenizer_config.json asks for nothing that this engine would not do. Errors:
/// kCorruptData, and kUnsupported for add_bos_token: BOS is written by the chat format, never by
/// the tokenizer.
Result<void> check_tokenizer_config(std::string_view text);

/// Tensor name -> name of the file that holds it, from model.safetensors.index.json. File names
/// have no directory part. Errors: kCorruptData.
using WeightMap = std::unordered_map<std::string, std::string>;
Result<WeightMap> parse_index(std::string_view text);

}  // namespace stoker
