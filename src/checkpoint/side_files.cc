#include "checkpoint/side_files.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/json_text.h"

namespace stoker {
namespace {

constexpr size_t kMaxSmallDepth = 16;
constexpr size_t kMaxSmallValues = 100'000;
constexpr size_t kMaxIndexValues = 4'000'000;
constexpr size_t kMaxFileNameBytes = 255;
constexpr double kMaxTemperature = 1e6;
constexpr double kMinTopP = 1e-30;
constexpr double kMaxRepetition = 1e6;

std::vector<int32_t> eos_ids(ConfigReader& reader, int32_t vocab_size) {
  const Json* value = reader.find_value("eos_token_id");
  if (value == nullptr) return {};
  if (!value->is_array()) return {reader.integer("eos_token_id", 0, vocab_size - 1)};
  std::vector<int32_t> ids;
  for (const int64_t id : reader.integers("eos_token_id", 0, vocab_size - 1)) {
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// A file in the checkpoint's own directory.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return static_cast<uint8_t>(c) >= ' ' && c != '/' && c != '\\' && c != 0x7F;
         });
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view text, int32_t vocab_size) {
  TRY_ASSIGN(const Json json, parse_json_object(text, kMaxSmallDepth, kMaxSmallValues));
  ConfigReader reader(json, "");
  GenerationConfig config;
  if (reader.find_value("temperature") != nullptr) {
    config.temperature = reader.real("temperature", 0, kMaxTemperature);
  }
  if (reader.find_value("top_p") != nullptr) {
    config.top_p = reader.real("top_p", kMinTopP, 1);
  }
  if (reader.find_value("top_k") != nullptr) config.top_k = reader.integer("top_k", -1, INT32_MAX);
  if (reader.find_value("min_p") != nullptr) config.min_p = reader.real("min_p", 0, 1);
  if (reader.find_value("repetition_penalty") != nullptr) {
    config.repetition_penalty =
        reader.real("repetition_penalty", 1 / kMaxRepetition, kMaxRepetition);
  }
  config.eos_token_ids = eos_ids(reader, vocab_size);
  if (reader.find_value("do_sample") != nullptr && !reader.boolean("do_sample")) {
    config.temperature = 0.0;
  }
  if (reader.error()) return *reader.error();
  return config;
}

Result<void> check_tokenizer_config(std::string_view text) {
  TRY_ASSIGN(const Json json, parse_json_object(text, kMaxSmallDepth, kMaxSmallValues));
  ConfigReader reader(json, "");
  reader.require("add_bos_token", Json::boolean(false));
  reader.require("add_eos_token", Json::boolean(false));
  if (reader.error()) return *reader.error();
  return {};
}

Result<WeightMap> parse_index(std::string_view text) {
  TRY_ASSIGN(const Json json, parse_json_object(text, kMaxSmallDepth, kMaxIndexValues));
  const Json* entries = json.find("weight_map");
  if (entries == nullptr || !entries->is_object()) {
    return Error{ErrorCode::kCorruptData,
                 "weight_map: expected an object, found " +
                     (entries != nullptr ? found(*entries) : "no such key"),
                 ""};
  }
  WeightMap map;
  map.reserve(entries->members().size());
  for (const auto& [name, file] : entries->members()) {
    if (!file.is_string() || !is_plain_file_name(file.as_string())) {
      return Error{ErrorCode::kCorruptData,
                   "weight_map: " + shown(name) +
                       ": expected the name of a file beside this one, found " + found(file),
                   ""};
    }
    map.emplace(name, file.as_string());
  }
  return map;
}

}  // namespace stoker
