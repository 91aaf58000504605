#include "api/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
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
                                                              const snapshot::Manifest& manifest,
                                                              std::optional<snapshot::UseLock> lock,
                                                              const std::string& require_signature,
                                                              const LoadOptions& options) {
  if (auto able = check_processor(); !able) return std::move(able).error();
  std::shared_ptr<LoadedModel> loaded(new LoadedModel(std::move(parts.checkpoint)));
  loaded->packed_memory_.emplace(std::move(parts.packed_memory));
  loaded->lock_ = std::move(lock);
  loaded->origin_ = SnapshotOrigin{manifest.id(), require_signature};
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
  if (options.progress) options.progress({"building the tokenizer"});
  if (done = load_tokenizer(); !done) return done;
  TRY_ASSIGN(std::vector<int32_t> map, token_map());
  TRY_ASSIGN(const Replay replay, replay_of(checkpoint_.config(), options.bounded_replay));
  if (!stored_) done = load_weights(options);
  if (!done) return done;
  TRY_ASSIGN(model_, Model::create(checkpoint_.config(), weights(), std::move(map), replay));
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

Result<void> LoadedModel::load_tokenizer() {
  if (!checkpoint_.texts().tokenizer) {
    why_no_chat_ =
        Error{ErrorCode::kUnsupported, "the model has no tokenizer.json: give token ids", ""};
    return {};
  }
  auto parsed = Tokenizer::parse(*checkpoint_.texts().tokenizer);
  if (!parsed) return std::move(parsed).error().with("tokenizer.json");
  tokenizer_ = *std::move(parsed);
  if (tokenizer_->size() > checkpoint_.config().vocab_size) {
    return Error{
        ErrorCode::kCorruptData,
        "tokenizer.json: expected at most " + std::to_string(checkpoint_.config().vocab_size) +
            " tokens (vocab_size of config.json), found " + std::to_string(tokenizer_->size()),
        ""};
  }
  auto encoder = chat::Encoder::create(*tokenizer_);
  if (encoder) {
    encoder_ = *std::move(encoder);
  } else {
    why_no_chat_ = encoder.error();
  }
  return {};
}

// Engram's class of each id; ids beyond the tokenizer are in class 0. Without a tokenizer only a
// map that merges nothing is known: the identity.
Result<std::vector<int32_t>> LoadedModel::token_map() const {
  const ModelConfig& c = checkpoint_.config();
  if (c.engram_layer_ids.empty()) return std::vector<int32_t>{};
  if (!tokenizer_) {
    if (c.engram_compressed_vocab_size != c.vocab_size) {
      return Error{
          ErrorCode::kInvalidArgument,
          "tokenizer.json is missing, and without it the Engram token map is known only where "
          "engram_compressed_vocab_size equals vocab_size: expected " +
              std::to_string(c.vocab_size) + ", found " +
              std::to_string(c.engram_compressed_vocab_size),
          ""};
    }
    std::vector<int32_t> identity(static_cast<size_t>(c.vocab_size));
    std::iota(identity.begin(), identity.end(), 0);
    return identity;
  }
  EngramMap map = engram_map(*tokenizer_);
  if (map.num_classes != c.engram_compressed_vocab_size) {
    return Error{ErrorCode::kCorruptData,
                 "the Engram token map of tokenizer.json: expected " +
                     std::to_string(c.engram_compressed_vocab_size) +
                     " classes (engram_compressed_vocab_size of config.json), found " +
                     std::to_string(map.num_classes),
                 ""};
  }
  map.class_of.resize(static_cast<size_t>(c.vocab_size));
  return std::move(map.class_of);
}

void LoadedModel::describe(const std::string& name, const std::string& path) {
  const ModelConfig& c = checkpoint_.config();
  const GenerationConfig& generation = checkpoint_.generation();
  info_.name = name;
  info_.path = path;
  info_.vocab_size = c.vocab_size;
  info_.has_text = tokenizer_.has_value();
  info_.has_chat = encoder_.has_value();
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
