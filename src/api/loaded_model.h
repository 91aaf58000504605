// A model as the api room holds it: checkpoint, tokenizer, chat encoder and layers, each borrowing
// from the one before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot_parts.h"
#include "api/stored_weights.h"
#include "api/text_model.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/packed_weights.h"
#include "snapshot/use_lock.h"
#include "stoker/engine.h"

namespace stoker {

/// How a model is loaded.
struct LoadOptions {
  int num_threads = 1;
  int max_model_len = 0;  ///< as EngineOptions
  BoundedReplay bounded_replay = BoundedReplay::kExact;
  WeightOptions weights = {};
  LogSink log = {};            ///< may be null
  ProgressSink progress = {};  ///< may be null
};

/// How the weights of a model come back.
struct MapAgain {
  std::string store = {};  ///< as WeightOptions
  int num_threads = 1;
  LogSink log = {};            ///< may be null
  ProgressSink progress = {};  ///< may be null
};

/// Immutable once loaded but for let_go() and map_again(), and shared by the engine and the streams
/// that outlive it.
class LoadedModel {
 public:
  /// `model` as for Engine::open, and its errors.
  static Result<std::shared_ptr<LoadedModel>> load(const std::string& model,
                                                   const LoadOptions& options);

  /// Of a snapshot's objects and the text model of its texts; `lock` is held as long as they are
  /// mapped. The same errors.
  static Result<std::shared_ptr<LoadedModel>> of_snapshot(MappedModel parts,
                                                          std::unique_ptr<const TextModel> text,
                                                          const snapshot::Manifest& manifest,
                                                          std::optional<snapshot::UseLock> lock,
                                                          const std::string& require_signature,
                                                          const LoadOptions& options);

  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelInfo& info() const { return info_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const Model& model() const { return *model_; }
  /// Packed.
  const ModelWeights& weights() const { return stored_ ? *stored_->weights : packed_->weights(); }
  /// Where they are mapped from; null: they are in memory.
  const StoredWeights* stored() const { return stored_ ? &*stored_ : nullptr; }
  /// Whether all weights are mapped from files. The system may then use their pages for other
  /// things until they are read again, which drop_pages() lets it do at once.
  bool can_drop_pages() const;
  void drop_pages() const;
  /// Error: kUnsupported where weights are in memory alone.
  Result<void> check_can_let_go() const;
  /// Unmaps all files that the weights are in, of which nobody may read anything then, and closes
  /// the store with its lock. Their addresses stay reserved. Error: kResourceExhausted where one
  /// could not be unmapped.
  Result<void> let_go();
  /// Has the same bytes there again, all of them verified. Returns the text of the canary of its
  /// snapshot; "" where it is from a checkpoint. Errors: those of Engine::resume; it is then as
  /// after let_go().
  Result<std::string> map_again(const MapAgain& how);
  /// Of the snapshot that it came from; null: from a checkpoint.
  const snapshot::Manifest* manifest() const { return manifest_ ? &*manifest_ : nullptr; }
  const Tokenizer* tokenizer() const { return text_->tokenizer(); }  ///< null: ids only
  const chat::Encoder* encoder() const { return text_->encoder(); }  ///< null: no chat format
  const std::optional<Error>& why_no_chat() const {
    return text_->why_no_chat();
  }  ///< with a null encoder
  const snapshot::Digest& fingerprint() const { return *fingerprint_; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }  ///< end of text

  /// Error: kInvalidArgument with `field` for an id outside the vocabulary, kUnsupported for the
  /// image token.
  Result<void> check_ids(const std::vector<int32_t>& ids, const std::string& field) const;

 private:
  explicit LoadedModel(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  Result<void> prepare(const LoadOptions& options);
  Result<void> load_weights(const LoadOptions& options);
  Result<void> map_weights(const LoadOptions& options);
  Result<void> pack_in_memory(const LoadOptions& options);
  Result<std::vector<snapshot::Object>> attach_again(const snapshot::Store& store,
                                                     const MapAgain& how) const;
  Result<void> map_checkpoint_again(const MapAgain& how);
  void describe(const std::string& name, const std::string& path);

  ModelInfo info_;
  std::optional<snapshot::Manifest> manifest_;  // these four of a snapshot
  std::optional<ReservedMemory> packed_memory_;
  std::optional<snapshot::UseLock> lock_;
  std::string require_signature_;  // as SnapshotOptions
  Checkpoint checkpoint_;
  std::optional<snapshot::Digest> fingerprint_;  // once the weights are loaded
  std::optional<StoredWeights> stored_;          // one of these two
  std::optional<PackedWeights> packed_;
  std::unique_ptr<const TextModel> text_;  // once it is prepared
  std::optional<Model> model_;
  std::vector<int32_t> stop_ids_;
};

/// How an engine of these options loads. Error: kInvalidArgument for the threads.
Result<LoadOptions> load_options(const EngineOptions& options);

/// An engine over a model that is loaded; one that is quiesced has it alone. Errors: as
/// Engine::open.
Result<std::unique_ptr<Engine>> start_engine(std::shared_ptr<LoadedModel> loaded,
                                             const EngineOptions& options);

/// The replay that was asked for; kOff for kExact where the model does not allow it. Error:
/// kUnsupported for kCompact there.
Result<Replay> replay_of(const ModelConfig& config, BoundedReplay asked);

/// What the options say of memory.
KvBudget budget_of(const EngineOptions& options);

/// Rows of a step at most: each sequence can have one.
int32_t max_step_rows(const EngineOptions& options);

/// Threads to compute with: `asked`, or the usable cores for 0. Error: kInvalidArgument beyond [0,
/// 1024].
Result<int> threads_to_use(int asked);

/// The last part of a model's path, or "demo".
std::string model_name(const std::string& model, const std::string& path);

}  // namespace stoker
