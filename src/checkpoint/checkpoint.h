// A checkpoint directory: config, tokenizer files, and weights mapped from safetensors files. What
// is small is checked at open; the stored numbers are when somebody asks, for that reads them all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/codes.h"
#include "checkpoint/config.h"
#include "checkpoint/shards.h"
#include "checkpoint/side_files.h"
#include "checkpoint/weights.h"
#include "stoker/result.h"

namespace stoker {

/// A tokenizer.json beyond this is refused before it is read.
inline constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;

/// The checked config.json of a checkpoint directory. Errors: kNotFound, kIo, and those of
/// parse_config.
Result<ModelConfig> read_config(const std::string& dir);

/// What one tensor of the files is, for people.
struct TensorSummary {
  std::string part;  ///< "routed experts", "attention", ...; "vision (unused)"
  std::string name;
  int64_t num_parameters = 0;  ///< 0 for a scale
  int64_t bytes = 0;
};

/// What headers say, before anything is judged: for `stoker inspect`.
struct CheckpointSurvey {
  std::optional<ModelConfig> config;   ///< none: see problems
  std::vector<TensorSummary> tensors;  ///< in the order of the files
  std::vector<std::string> problems;   ///< each with expected, found and file
};

/// The texts beside the weights, as their files have them.
struct CheckpointTexts {
  std::string config;                            ///< config.json
  std::optional<std::string> generation_config;  ///< generation_config.json
  std::optional<std::string> tokenizer;          ///< tokenizer.json
};

/// An opened checkpoint. Immutable but for let_go() and map_again(); weights borrow from its
/// mappings and live as long as it.
class Checkpoint {
 public:
  /// Of what was read already; all that the shards' views borrow from outlives it. `name` stands
  /// in messages where a directory would. Errors: those of open_headers but kNotFound.
  static Result<Checkpoint> of_parts(CheckpointTexts texts, Shards shards, const std::string& name);

  /// Reads headers, not weights. Errors: kNotFound, kIo, kInvalidArgument and kUnsupported
  /// (config), kCorruptData (files; all tensor problems in one error, the first 20 of them spelled
  /// out).
  static Result<Checkpoint> open_headers(const std::string& dir);

  /// Looks at every stored number that is used, once: no work after a success. progress(fraction)
  /// is called from the calling thread; may be null. Error: kCorruptData for the first bad one.
  Result<void> check_codes(int num_threads,
                           const std::function<void(double fraction)>& progress = {});

  /// Both: what the weights promise holds. The errors of both.
  static Result<Checkpoint> open(const std::string& dir, int num_threads,
                                 const std::function<void(double fraction)>& progress = {});

  /// Reads headers only. Errors: kNotFound, kIo for the directory itself.
  static Result<CheckpointSurvey> survey(const std::string& dir);

  /// Unmaps its files and maps them again at the same addresses, as MappedFile: nobody reads the
  /// weights in between. Errors: those of MappedFile; after one of map_again() all are let go.
  Result<void> let_go();
  Result<void> map_again();

  /// Of config.json; without draft stages where draft_head_missing().
  const ModelConfig& config() const { return config_; }
  /// config.json has draft stages, and the weights have no `mtp.*` at all: a model without.
  bool draft_head_missing() const { return draft_head_missing_; }
  /// As the files have them.
  const CheckpointTexts& texts() const { return texts_; }
  /// The files and all their tensors, used or not.
  const Shards& shards() const { return shards_; }
  const ModelWeights& weights() const { return weights_; }
  const GenerationConfig& generation() const { return generation_; }
  /// Of the tensors that are used, scales counted.
  int64_t weight_bytes() const { return weight_bytes_; }
  /// Names of tensors that are accepted but not used (vision).
  const std::vector<std::string>& unused() const { return unused_; }

 private:
  std::string dir_;
  CheckpointTexts texts_;
  ModelConfig config_;
  ModelWeights weights_;
  GenerationConfig generation_;
  Shards shards_;
  std::vector<CodeArray> unchecked_;  // borrows from the shards
  int64_t weight_bytes_ = 0;
  std::vector<std::string> unused_;
  bool draft_head_missing_ = false;
};

}  // namespace stoker
