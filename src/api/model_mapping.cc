// How a loaded model lets go of the files that it is mapped from, and has them again: at the same
// addresses, so that every view of it is good as before.
#include <utility>

#include "api/canary.h"
#include "api/fingerprint.h"
#include "api/loaded_model.h"
#include "api/snapshots.h"
#include "base/check.h"
#include "base/try.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Object;
using snapshot::Store;

// The manifest that an engine came from, with the signature that it had to have. Returns its
// canary.
Result<std::string> canary_of(const Store& store, const snapshot::Digest& id,
                              const std::string& require_signature, const MapAgain& how) {
  TRY_ASSIGN(const Manifest manifest, snapshot::Snapshots(store).read(id));
  SnapshotOptions options;
  options.engine.num_threads = how.num_threads;
  options.engine.progress = how.progress;
  options.require_signature = require_signature;
  if (auto good = verify_signed(store, manifest, options); !good) return std::move(good).error();
  return needed_text(store, manifest, kCanaryPart, kMaxCanaryBytes);
}

}  // namespace

Result<std::optional<snapshot::UseLock>> lock_in_use(const Store& store,
                                                     const snapshot::Digest& id) {
  if (!store.writable()) return std::optional<snapshot::UseLock>();
  const snapshot::Snapshots snapshots(store);
  TRY_ASSIGN(snapshot::UseLock lock, snapshots.use(id, snapshot::Sharing::kShared));
  TRY_ASSIGN([[maybe_unused]] const Manifest still, snapshots.read(id));
  return std::optional(std::move(lock));
}

Result<void> LoadedModel::check_can_let_go() const {
  if (stored_) return {};
  return Error{
      ErrorCode::kUnsupported,
      "expected weights that are mapped from a store, found them packed in memory: a store "
      "that can be written keeps them (--store, and no --no-pack)",
      ""};
}

Result<void> LoadedModel::let_go() {
  CHECK(stored_, "check_can_let_go() says whether it can");
  Result<void> gone = checkpoint_.let_go();
  for (Object& object : stored_->objects) {
    if (auto one = object.let_go(); !one) gone = std::move(one);
  }
  lock_.reset();
  stored_->store.reset();
  return gone;
}

// All of them, verified, at addresses of their own.
Result<std::vector<Object>> LoadedModel::attach_again(const Store& store,
                                                      const MapAgain& how) const {
  std::vector<Object> objects;
  for (const Object& old : stored_->objects) {
    const snapshot::Section& section = old.section();
    TRY_ASSIGN(
        snapshot::Attached attached,
        attach_part(store, section, snapshot::AttachVerify::kFull, how.num_threads, how.progress));
    if (how.log) how.log(LogLevel::kInfo, attached_line(section, attached.report));
    objects.push_back(std::move(attached.object));
  }
  return objects;
}

// The files of a checkpoint, if they are those that its weights were packed from.
Result<void> LoadedModel::map_checkpoint_again(const MapAgain& how) {
  if (auto mapped = checkpoint_.map_again(); !mapped) return mapped;
  if (checkpoint_.shards().files.empty()) return {};
  const snapshot::Digest found = fingerprint_of(checkpoint_, how.num_threads, how.progress);
  if (found == *fingerprint_) return {};
  (void)checkpoint_.let_go();
  return Error{ErrorCode::kCorruptData,
               info_.path + ": expected weights with the fingerprint " + fingerprint_->hex() +
                   ", found " + found.hex(),
               ""};
}

Result<std::string> LoadedModel::map_again(const MapAgain& how) {
  TRY_ASSIGN(Store store, open_store(how.store));
  std::optional<snapshot::UseLock> lock;
  std::string canary;
  if (manifest_) {
    TRY_ASSIGN(lock, lock_in_use(store, manifest_->id()));
    TRY_ASSIGN(canary, canary_of(store, manifest_->id(), require_signature_, how));
  }
  TRY_ASSIGN(std::vector<Object> objects, attach_again(store, how));
  auto mapped = map_checkpoint_again(how);
  for (size_t i = 0; mapped && i < objects.size(); ++i)
    mapped = stored_->objects[i].take_over(std::move(objects[i]));
  if (!mapped) {
    (void)let_go();
    return std::move(mapped).error();
  }
  stored_->store.emplace(std::move(store));
  lock_ = std::move(lock);
  return canary;
}

}  // namespace stoker
