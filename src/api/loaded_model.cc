#include "api/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/fingerprint.h"
#include "api/receipt.h"
#include "base/machine.h"
#include "base/try.h"

namespace stoker {
namespace {

constexpr int kMaxThreads = 1024;

// On less than AVX2 with FMA all that computes would end in an illegal instruction.
Result<void> check_processor() {
  auto plan = kernels::default_plan();
  if (!plan) return std::move(plan).error();
  return {};
}

// 0: as the checkpoint has it.
Result<void> check_model_len(int max_model_len, const ModelConfig& c) {
  if (max_model_len >= 0 && max_model_len <= c.max_position_embeddings) return {};
  return Error{ErrorCode::kInvalidArgument,
               "max_model_len: expected 1 to " + std::to_string(c.max_position_embeddings) +
                   ", the checkpoint's context, found " + std::to_string(max_model_len),
               "max_model_len"};
}

}  // namespace

Result<Replay> replay_of(const ModelConfig& config, BoundedReplay asked) {
  constexpr ReplayMode kModes[] = {ReplayMode::kOff, ReplayMode::kExact, ReplayMode::kCompact};
  auto replay = make_replay(config, kModes[static_cast<size_t>(asked)]);
  if (!replay && asked == BoundedReplay::kExact) return Replay{};  // the same bits
  return replay;
}

KvBudget budget_of(const EngineOptions& options) {
  return {.bytes = options.kv_budget_bytes,
          .max_num_seqs = options.max_num_seqs,
          .prefix_cache = options.prefix_caching,
          .image_bytes = options.image_budget_bytes};
}

int32_t max_step_rows(const EngineOptions& options) {
  return std::max(options.max_num_batched_tokens, options.max_num_seqs);
}

Result<int> threads_to_use(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    return Error{ErrorCode::kInvalidArgument,
                 "threads: expected 0 to " + std::to_string(kMaxThreads) + ", found " +
                     std::to_string(asked),
                 "threads"};
  }
  return asked > 0 ? asked : usable_cores();
}

std::string model_name(const std::string& model, const std::string& path) {
  if (model == "demo") return model;
  std::filesystem::path clean = std::filesystem::path(path).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  if (clean.filename() == "." || clean.filename() == "..")
    clean = std::filesystem::absolute(clean).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  return clean.filename().string();
}

Result<std::shared_ptr<LoadedModel>> LoadedModel::load(const std::string& model,
                                                       const LoadOptions& options) {
  if (auto able = check_processor(); !able) return std::move(able).error();
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open_headers(path));
  std::shared_ptr<LoadedModel> loaded(new LoadedModel(std::move(checkpoint)));
  if (auto ready = loaded->prepare(options); !ready) return std::move(ready).error();
  loaded->describe(model_name(model, path), path);
  return loaded;
}

Result<std::shared_ptr<LoadedModel>> LoadedModel::of_snapshot(MappedModel parts,
                                                              std::unique_ptr<const TextModel> text,
                                                              const snapshot::Manifest& manifest,
                                                              std::optional<snapshot::UseLock> lock,
                                                              const std::string& require_signature,
                                                              const LoadOptions& options) {
  if (auto able = check_processor(); !able) return std::move(able).error();
  std::shared_ptr<LoadedModel> loaded(new LoadedModel(std::move(parts.checkpoint)));
  loaded->packed_memory_.emplace(std::move(parts.packed_memory));
  loaded->lock_ = std::move(lock);
  loaded->require_signature_ = require_signature;
  loaded->text_ = std::move(text);
  loaded->stored_.emplace(std::move(parts.weights));
  loaded->fingerprint_ = manifest.model_fingerprint;
  loaded->manifest_ = manifest;
  if (auto ready = loaded->prepare(options); !ready) return std::move(ready).error();
  loaded->describe(manifest.model_name,
                   loaded->stored_->store->dir() + "/snapshots/" + manifest.id().hex());
  return loaded;
}

// All but names, over a checkpoint and perhaps weights from a snapshot.
Result<void> LoadedModel::prepare(const LoadOptions& options) {
  auto done = check_model_len(options.max_model_len, checkpoint_.config());
  if (!done) return done;
  if (!text_) {
    if (options.progress) options.progress({"building the tokenizer"});
    TRY_ASSIGN(text_, TextModel::make(checkpoint_.texts().tokenizer, checkpoint_.config()));
  }
  TRY_ASSIGN(const Replay replay, replay_of(checkpoint_.config(), options.bounded_replay));
  if (!stored_) done = load_weights(options);
  if (!done) return done;
  TRY_ASSIGN(model_, Model::create(checkpoint_.config(), weights(), text_->token_map(), replay));
  info_.max_context_tokens =
      options.max_model_len > 0
          ? options.max_model_len
          : static_cast<int32_t>(checkpoint_.config().max_position_embeddings);
  return {};
}

// No start fails for want of a store.
Result<void> LoadedModel::load_weights(const LoadOptions& options) {
  if (!options.weights.pack) return pack_in_memory(options);
  auto mapped = map_weights(options);
  if (!mapped) return mapped;
  return stored_ ? mapped : pack_in_memory(options);
}

// Leaves stored_ empty where the store cannot do it, and says why; an error is the checkpoint's.
Result<void> LoadedModel::map_weights(const LoadOptions& options) {
  const auto cannot = [&options](const Error& why) -> Result<void> {
    if (options.log)
      options.log(LogLevel::kWarning, "event=packing_in_memory reason=\"" + why.message + "\"");
    return {};
  };
  auto store = open_store(options.weights.store);
  if (!store) return cannot(store.error());
  TRY_ASSIGN(fingerprint_,
             fingerprint_of(checkpoint_, *store, options.num_threads, options.progress));
  auto stored =
      stored_weights(*std::move(store), *fingerprint_, checkpoint_,
                     {options.weights.verify, options.num_threads, options.log, options.progress});
  if (!stored) return cannot(stored.error());
  stored_.emplace(*std::move(stored));
  return {};
}

Result<void> LoadedModel::pack_in_memory(const LoadOptions& options) {
  const int64_t num_bytes = checkpoint_.weight_bytes();
  auto checked = checkpoint_.check_codes(options.num_threads, [&](double fraction) {
    if (options.progress) options.progress({"checking weights", fraction, num_bytes});
  });
  if (!checked) return checked;
  if (!fingerprint_)
    fingerprint_ = fingerprint_of(checkpoint_, options.num_threads, options.progress);
  WorkerPool pool(options.num_threads);
  packed_ = PackedWeights::make(checkpoint_.weights(), pool, [&](int64_t done, int64_t total) {
    if (!options.progress) return;
    const double fraction = static_cast<double>(done) / static_cast<double>(total);
    options.progress({"packing weights", fraction, total});
  });
  return {};
}

void LoadedModel::describe(const std::string& name, const std::string& path) {
  const ModelConfig& c = checkpoint_.config();
  const GenerationConfig& generation = checkpoint_.generation();
  info_.name = name;
  info_.path = path;
  info_.vocab_size = c.vocab_size;
  info_.has_text = tokenizer() != nullptr;
  info_.has_chat = encoder() != nullptr;
  info_.defaults.temperature = generation.temperature.value_or(1.0);
  info_.defaults.top_p = generation.top_p.value_or(1.0);
  info_.defaults.top_k = generation.top_k.value_or(0);
  info_.defaults.min_p = generation.min_p.value_or(0);
  info_.defaults.repetition_penalty = generation.repetition_penalty.value_or(1);
  stop_ids_ = generation.eos_token_ids;
  if (std::find(stop_ids_.begin(), stop_ids_.end(), c.eos_token_id) == stop_ids_.end()) {
    stop_ids_.push_back(c.eos_token_id);
  }
  info_.bos_id = c.bos_token_id;
  info_.eos_ids = stop_ids_;
  info_.digest = model_digest(*fingerprint_, checkpoint_, stop_ids_).hex();
  info_.numeric_mode =
      model_->replay().mode == ReplayMode::kCompact ? kCompactMode : kReferenceMode;
}

bool LoadedModel::can_drop_pages() const {
  return stored_ && std::ranges::all_of(stored_->objects, &snapshot::Object::can_drop_pages);
}

void LoadedModel::drop_pages() const {
  if (stored_) {
    for (const snapshot::Object& object : stored_->objects) object.drop_pages();
  }
  for (const MappedFile& file : checkpoint_.shards().files) file.drop_pages();
}

Result<void> LoadedModel::check_ids(const std::vector<int32_t>& ids,
                                    const std::string& field) const {
  const ModelConfig& c = checkpoint_.config();
  for (const int32_t id : ids) {
    if (id < 0 || id >= c.vocab_size) {
      return Error{ErrorCode::kInvalidArgument,
                   "expected token ids from 0 to " + std::to_string(c.vocab_size - 1) + ", found " +
                       std::to_string(id),
                   field};
    }
    if (id == c.image_token_id) {
      return Error{ErrorCode::kUnsupported,
                   "images are not supported, found the image token " + std::to_string(id), field};
    }
  }
  return {};
}

}  // namespace stoker
