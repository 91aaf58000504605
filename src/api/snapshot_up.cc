// From a snapshot to an engine that has shown that it gives the same answers; and what else is done
// with the snapshots of a store.
#include <chrono>
#include <future>
#include <utility>

#include "api/canary.h"
#include "api/kept_prefixes.h"
#include "api/loaded_model.h"
#include "api/snapshot_parts.h"
#include "api/snapshots.h"
#include "base/try.h"
#include "snapshot/collect.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Object;
using snapshot::Sharing;
using snapshot::Snapshots;
using snapshot::Store;

using StageClock = std::chrono::steady_clock;

// Times one stage after the other.
class Stages {
 public:
  // Ends a stage; `elsewhere` seconds of it are told as another one.
  void end(const char* name, double elsewhere = 0) {
    const StageClock::time_point now = StageClock::now();
    add(name, std::chrono::duration<double>(now - begin_).count() - elsewhere, 0);
    begin_ = now;
  }
  // Ends a stage that handled so many bytes.
  void end(const char* name, int64_t num_bytes, const std::string& how) {
    end(name);
    stages_.back().num_bytes = num_bytes;
    stages_.back().how = how;
  }
  void add(const char* name, double seconds, int64_t num_bytes, std::string how = {}) {
    stages_.push_back({name, seconds, num_bytes, std::move(how)});
  }
  std::vector<StageTime> take() { return std::move(stages_); }

 private:
  StageClock::time_point begin_ = StageClock::now();
  std::vector<StageTime> stages_;
};

// Damage, or want of memory, where there is nothing else.
Error nothing_fits(const Store& store, const std::string& name,
                   const std::vector<Candidate>& candidates) {
  std::optional<ErrorCode> code;
  std::string reasons;
  for (const Candidate& candidate : candidates) {
    const Error& why = *candidate.told.passed_over;
    reasons += "; " + candidate.told.info.id.substr(0, 8) + ": " + why.message;
    code = !code || *code == why.code ? why.code : ErrorCode::kNotFound;
  }
  return {code.value_or(ErrorCode::kNotFound),
          store.dir() + ": expected a snapshot of " + name + " that fits here, found " +
              (candidates.empty() ? "none; `stoker snapshot create` makes one" : "none" + reasons),
          ""};
}

// Reads all bytes of mapped objects.
Result<int64_t> verify_objects(const std::vector<Object>& objects, int num_threads,
                               const ProgressSink& progress) {
  int64_t num_bytes = 0;
  for (const Object& object : objects) {
    auto good = object.verify(num_threads, [&](double fraction) {
      if (progress)
        progress({"verifying " + object.section().kind, fraction, object.section().bytes});
    });
    if (!good) return std::move(good).error();
    num_bytes += object.section().bytes;
  }
  return num_bytes;
}

// Brings the large objects of a snapshot, and adds up what it took.
class Bringer {
 public:
  explicit Bringer(const LoadOptions& load) : load_(load) {}

  Result<Object> bring(const Store& store, const snapshot::Section& section) {
    if (load_.weights.verify == Verify::kBackground) return store.map(section);
    TRY_ASSIGN(snapshot::Attached attached,
               attach_part(store, section, snapshot::AttachVerify::kInherited, load_.num_threads,
                           load_.progress));
    const snapshot::AttachReport& report = attached.report;
    populate_s_ += report.populate_s;
    verify_s_ += report.verify_s;
    num_bytes_ += report.bytes;
    if (section.kind == kWeightsPart) way_ = std::string(name_of(report.way)) + ", " + report.why;
    if (report.inherited_from == 0) num_verified_ += report.bytes;
    return std::move(attached.object);
  }

  void tell(Stages& stages) const {
    if (num_bytes_ == 0) return;
    stages.add("populate", populate_s_, num_bytes_, way_);
    const int64_t inherited = num_bytes_ - num_verified_;
    stages.add("verify", verify_s_, num_verified_,
               inherited > 0 ? std::to_string(inherited) + " bytes verified by who pins them" : "");
  }
  double seconds() const { return populate_s_ + verify_s_; }

 private:
  const LoadOptions& load_;
  double populate_s_ = 0;
  double verify_s_ = 0;
  int64_t num_bytes_ = 0;
  int64_t num_verified_ = 0;
  std::string way_;
};

// Makes it of the texts of a snapshot on a thread of its own: bytes come from storage meanwhile.
std::future<Result<std::unique_ptr<const TextModel>>> make_text_model(
    const CheckpointTexts& texts) {
  return std::async(std::launch::async,
                    [config_text = texts.config,
                     tokenizer = texts.tokenizer]() -> Result<std::unique_ptr<const TextModel>> {
                      TRY_ASSIGN(const ModelConfig config, parse_config(config_text));
                      return TextModel::make(tokenizer, config);
                    });
}

Result<void> ask_canary(Engine& engine, const std::string& text, const SnapshotOptions& options) {
  if (options.engine.progress) options.engine.progress({"asking the canary"});
  TRY_ASSIGN(const Canary canary, parse_canary(text, engine.model().vocab_size));
  auto same = check_canary(engine, canary, options.canary_limit);
  engine.reset_prefix_cache();  // of what only the canary asked
  return same;
}

// Fills the prefix cache with what was saved of one.
void bring_prefixes(Engine& engine, const Store& store, const snapshot::Section& section,
                    const LoadOptions& load, Stages& stages) {
  const LoadedPrefixes done = load_prefixes(engine, store, section, load.num_threads);
  stages.end(
      "prefixes", section.bytes,
      std::to_string(done.num_loaded) + " with " + std::to_string(done.num_tokens) + " tokens");
  if (!load.log) return;
  const std::string counts = "event=prefixes loaded=" + std::to_string(done.num_loaded) +
                             " tokens=" + std::to_string(done.num_tokens);
  if (done.why.empty()) return load.log(LogLevel::kInfo, counts);
  load.log(LogLevel::kWarning,
           counts + " dropped=" +
               (done.num_dropped > 0 ? std::to_string(done.num_dropped) : std::string("all")) +
               " reason=\"" + done.why + "\"");
}

// An engine from a chosen snapshot.
Result<BroughtUp> restore(Store store, const Candidate& chosen, SnapshotOptions options,
                          Stages& stages) {
  const Manifest& manifest = *chosen.manifest;
  options.engine.weights.store = store.dir();
  options.engine.weights.pack = true;
  TRY_ASSIGN(std::optional<snapshot::UseLock> lock, lock_in_use(store, manifest.id()));
  if (!options.require_signature.empty()) {
    if (auto good = verify_signed(store, manifest, options); !good) return std::move(good).error();
    stages.end("sha256");
  }
  TRY_ASSIGN(const LoadOptions load, load_options(options.engine));
  TRY_ASSIGN(const std::string canary, needed_text(store, manifest, kCanaryPart, kMaxCanaryBytes));
  TRY_ASSIGN(CheckpointTexts texts, texts_of(store, manifest));
  auto text = make_text_model(texts);
  Bringer bringer(load);
  TRY_ASSIGN(MappedModel parts,
             map_model(std::move(store), manifest, std::move(texts),
                       [&bringer](const Store& from, const snapshot::Section& section) {
                         return bringer.bring(from, section);
                       }));
  stages.end("map", bringer.seconds());
  bringer.tell(stages);
  TRY_ASSIGN(std::unique_ptr<const TextModel> text_model, text.get());
  TRY_ASSIGN(const auto loaded,
             LoadedModel::of_snapshot(std::move(parts), std::move(text_model), manifest,
                                      std::move(lock), options.require_signature, load));
  if (loaded->info().digest != manifest.model_digest.hex()) {
    return Error{ErrorCode::kCorruptData,
                 "model.digest: expected " + manifest.model_digest.hex() + ", found " +
                     loaded->info().digest,
                 ""};
  }
  TRY_ASSIGN(std::unique_ptr<Engine> engine, start_engine(loaded, options.engine));
  stages.end("plans");
  if (auto same = ask_canary(*engine, canary, options); !same) return std::move(same).error();
  stages.end("canary");
  if (const snapshot::Section* const prefixes = manifest.find(kPrefixPart))
    bring_prefixes(*engine, *loaded->stored()->store, *prefixes, load, stages);
  return BroughtUp{std::move(engine), chosen.told.info, {}};
}

}  // namespace

Result<BroughtUp> bring_up(const std::string& name, const SnapshotOptions& options) {
  Stages stages;
  TRY_ASSIGN(Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(std::vector<Candidate> candidates, find_candidates(store, name, options.engine));
  if (auto checked = pass_over_unsigned(store, options, candidates); !checked)
    return std::move(checked).error();
  if (candidates.empty() || candidates.front().told.passed_over)
    return nothing_fits(store, name, candidates);
  stages.end("select");
  TRY_ASSIGN(BroughtUp up, restore(std::move(store), candidates.front(), options, stages));
  up.stages = stages.take();
  return up;
}

Result<SnapshotInfo> verify_snapshot(const std::string& id, const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(const LoadOptions load, load_options(options.engine));
  const Snapshots snapshots(store);
  TRY_ASSIGN(const snapshot::Digest whole, snapshots.id_of(id));
  TRY_ASSIGN(const Manifest manifest, snapshots.read(whole));
  if (auto good = verify_signed(store, manifest, options); !good) return std::move(good).error();
  std::vector<Object> objects;
  for (const snapshot::Section& section : manifest.sections) {
    TRY_ASSIGN(Object object, store.map(section));
    objects.push_back(std::move(object));
  }
  TRY_ASSIGN([[maybe_unused]] const int64_t num_bytes,
             verify_objects(objects, load.num_threads, load.progress));
  TRY_ASSIGN(const std::string signature, snapshots.signature(whole));
  return info_of(manifest, !signature.empty());
}

Result<void> remove_snapshot(const std::string& id, const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  const Snapshots snapshots(store);
  TRY_ASSIGN(const snapshot::Digest whole, snapshots.id_of(id));
  const auto alone = snapshots.use(whole, Sharing::kAlone);
  if (!alone) return alone.error();
  auto removed = snapshots.remove(whole);
  if (removed) alone->remove_file();
  return removed;
}

Result<CollectedSnapshots> collect_snapshots(const CollectSnapshots& options) {
  TRY_ASSIGN(const Store store, open_store(options.store));
  TRY_ASSIGN(snapshot::Collected done,
             snapshot::collect(store, {options.keep, options.max_bytes, options.dry_run}));
  CollectedSnapshots out;
  for (const snapshot::Digest& id : done.snapshots) out.snapshots.push_back(id.hex());
  out.objects = std::move(done.objects);
  out.damaged = std::move(done.damaged);
  out.num_bytes = done.bytes;
  out.num_bytes_left = done.bytes_left;
  out.num_leftovers = done.num_leftovers;
  return out;
}

int snapshot_exit_code(const Error& error) {
  if (error.field == "canary") return 5;
  switch (error.code) {
    case ErrorCode::kNotFound:
      return 3;
    case ErrorCode::kCorruptData:
      return 4;
    case ErrorCode::kResourceExhausted:
      return 6;
    case ErrorCode::kOverloaded:
      return 7;
    default:
      return error_code_info(error.code).exit_code;
  }
}

}  // namespace stoker
