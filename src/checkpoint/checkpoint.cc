#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/try.h"
#include "checkpoint/binding.h"
#include "checkpoint/inventory.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
// Beyond it, Engram tables are not read at load: their rows are checked as they are looked up.
constexpr int64_t kMaxCheckedEngramBytes = int64_t{4} << 30;

Result<void> check_directory(const std::string& dir) {
  std::error_code failed;
  const fs::file_status status = fs::status(dir, failed);
  if (fs::is_directory(status)) return {};
  if (failed && status.type() != fs::file_type::not_found) {
    return Error{ErrorCode::kIo, dir + ": " + failed.message(), ""};
  }
  return Error{ErrorCode::kNotFound,
               dir + ": expected a directory with a checkpoint, found " +
                   (status.type() == fs::file_type::not_found ? "nothing" : "a file"),
               ""};
}

std::string config_path(const std::string& dir) {
  return dir + "/config.json";
}

// A file's text; none if there is no such file. A link that leads nowhere is an error.
Result<std::optional<std::string>> read_optional(const std::string& path, size_t max_bytes) {
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(path, failed))) return std::optional<std::string>();
  TRY_ASSIGN(std::string text, read_file(path, max_bytes));
  return std::optional(std::move(text));
}

std::string generation_path(const std::string& dir) {
  return dir + "/generation_config.json";
}

Result<GenerationConfig> parse_generation(const std::optional<std::string>& text,
                                          int32_t vocab_size, const std::string& dir) {
  if (!text) return GenerationConfig();
  return parse_generation_config(*text, vocab_size).with(generation_path(dir));
}

Result<GenerationConfig> read_generation_config(const std::string& dir, int32_t vocab_size) {
  TRY_ASSIGN(const auto text, read_optional(generation_path(dir), kMaxConfigBytes));
  return parse_generation(text, vocab_size, dir);
}

Result<void> read_tokenizer_config(const std::string& dir) {
  const std::string path = dir + "/tokenizer_config.json";
  const auto text = read_optional(path, kMaxConfigBytes);
  if (!text) return text.error();
  if (!*text) return {};
  return check_tokenizer_config(**text).with(path);
}

// Weights without a draft head are a model without one, whatever config.json says; with a part of
// one they are damaged. Returns whether there was one to drop.
bool drop_absent_draft_head(ModelConfig& config, const Shards& shards) {
  if (config.num_nextn_predict_layers == 0 || shards.tensors.empty()) return false;
  const auto is_of_head = [](const StoredTensor& stored) {
    const std::string& name = stored.tensor.name;
    return name.starts_with("mtp.") && !is_unused(name);
  };
  if (std::ranges::any_of(shards.tensors, is_of_head)) return false;
  config.num_nextn_predict_layers = 0;
  return true;
}

// Whether a tensor holds the scales of another one: these are no parameters.
bool is_scale(const NamedTensor& tensor) {
  return tensor.name.ends_with(".scale");
}

TensorSummary summary_of(const NamedTensor& tensor) {
  TensorSummary summary;
  summary.part = part_of(tensor.name);
  summary.name = tensor.name;
  summary.bytes = tensor.view.size_bytes;
  if (is_scale(tensor)) return summary;
  const DTypeInfo& dtype = dtype_info(tensor.view.dtype);
  const bool is_packed =
      dtype.dtype == DType::kI8 || dtype.dtype == DType::kU8;  // two e2m1 codes a byte
  summary.num_parameters = tensor.view.size_bytes / dtype.size_bytes * (is_packed ? 2 : 1);
  return summary;
}

}  // namespace

Result<ModelConfig> read_config(const std::string& dir) {
  TRY_ASSIGN(const std::string text, read_file(config_path(dir), kMaxConfigBytes));
  return parse_config(text).with(config_path(dir));
}

Result<Checkpoint> Checkpoint::open_headers(const std::string& dir) {
  if (auto checked = check_directory(dir); !checked) return checked.error();
  CheckpointTexts texts;
  TRY_ASSIGN(texts.config, read_file(config_path(dir), kMaxConfigBytes));
  TRY_ASSIGN(texts.generation_config, read_optional(generation_path(dir), kMaxConfigBytes));
  if (auto checked = read_tokenizer_config(dir); !checked) return checked.error();
  TRY_ASSIGN(texts.tokenizer, read_optional(dir + "/tokenizer.json", kMaxTokenizerBytes));
  return of_parts(std::move(texts), open_shards(dir), dir);
}

Result<Checkpoint> Checkpoint::of_parts(CheckpointTexts texts, Shards shards,
                                        const std::string& name) {
  Checkpoint checkpoint;
  checkpoint.dir_ = name;
  TRY_ASSIGN(checkpoint.config_, parse_config(texts.config).with(config_path(name)));
  TRY_ASSIGN(checkpoint.generation_,
             parse_generation(texts.generation_config, checkpoint.config_.vocab_size, name));
  if (!shards.problems.empty()) return shards.problems.joined().with(name);
  checkpoint.draft_head_missing_ = drop_absent_draft_head(checkpoint.config_, shards);
  checkpoint.texts_ = std::move(texts);
  checkpoint.shards_ = std::move(shards);
  Binding binding = bind_weights(checkpoint.config_, checkpoint.shards_, kMaxCheckedEngramBytes);
  if (!binding.problems.empty()) return binding.problems.joined().with(name);
  checkpoint.weights_ = std::move(binding.weights);
  checkpoint.weight_bytes_ = binding.weight_bytes;
  checkpoint.unused_ = std::move(binding.unused);
  checkpoint.unchecked_ = std::move(binding.codes);
  return checkpoint;
}

Result<void> Checkpoint::check_codes(int num_threads,
                                     const std::function<void(double fraction)>& progress) {
  if (unchecked_.empty()) return {};
  if (auto checked = stoker::check_codes(unchecked_, num_threads, progress); !checked)
    return checked.error().with(dir_);
  unchecked_.clear();
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& dir, int num_threads,
                                    const std::function<void(double fraction)>& progress) {
  TRY_ASSIGN(Checkpoint checkpoint, open_headers(dir));
  if (auto checked = checkpoint.check_codes(num_threads, progress); !checked)
    return std::move(checked).error();
  return checkpoint;
}

Result<void> Checkpoint::let_go() {
  for (MappedFile& file : shards_.files) {
    if (auto gone = file.let_go(); !gone) return gone;
  }
  return {};
}

Result<void> Checkpoint::map_again() {
  for (MappedFile& file : shards_.files) {
    auto mapped = file.map_again();
    if (mapped) continue;
    (void)let_go();  // of those that were mapped just now, in the place of which there is room
    return mapped;
  }
  return {};
}

Result<CheckpointSurvey> Checkpoint::survey(const std::string& dir) {
  if (auto checked = check_directory(dir); !checked) return checked.error();
  CheckpointSurvey survey;
  const auto note = [&](const Error& error) { survey.problems.push_back(error.message); };

  auto config = read_config(dir);
  if (!config) note(config.error());
  const int32_t vocab_size = config ? config->vocab_size : INT32_MAX;
  if (const auto generation = read_generation_config(dir, vocab_size); !generation)
    note(generation.error());
  if (const auto checked = read_tokenizer_config(dir); !checked) note(checked.error());

  const Shards shards = open_shards(dir);
  const auto of_files = shards.problems.messages();
  survey.problems.insert(survey.problems.end(), of_files.begin(), of_files.end());
  for (const StoredTensor& stored : shards.tensors)
    survey.tensors.push_back(summary_of(stored.tensor));
  if (config && shards.problems.empty()) {
    drop_absent_draft_head(*config, shards);
    const auto of_tensors = bind_weights(*config, shards, 0).problems.messages();
    survey.problems.insert(survey.problems.end(), of_tensors.begin(), of_tensors.end());
  }
  if (config) survey.config = *std::move(config);
  return survey;
}

}  // namespace stoker
