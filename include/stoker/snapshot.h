// Snapshots: a warm engine as immutable objects in a store, and back. What comes back answers with
// the same bits, and shows it with a canary before anybody else may ask (docs/snapshots.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/engine.h"
#include "stoker/result.h"
#include "stoker/snapshot_info.h"

namespace stoker {

/// Where snapshots are, and how they are handled. Of the engine's options count those that change
/// numbers, threads, log and progress, and weights.store.
struct SnapshotOptions {
  EngineOptions engine = {};
  std::string name = {};  ///< as which the model is served; empty: the name of its folder
  std::chrono::milliseconds canary_limit{60'000};
  /// Of create_snapshot: a PEM file with the Ed25519 private key that signs it; empty: unsigned.
  std::string sign_key = {};
  /// Of all that read: a PEM file with the public key whose signature a snapshot must have, and
  /// then every byte is held against the SHA-256 of its manifest; empty: any will do.
  std::string require_signature = {};
};

/// Packs a model into the store, or finds it there; with the plans of this machine, and a canary.
/// Errors: as Engine::open; of the store kNotFound, kIo, kResourceExhausted, kCorruptData.
Result<SnapshotInfo> create_snapshot(const std::string& model, const SnapshotOptions& options);

/// Has a server save its engine, and waits: as Engine::save_snapshot there, in its store. `server`:
/// http://HOST[:PORT], https://..., or unix:PATH; `admin_key`: the secret of an administrator. Of
/// `what`, canary_limit and is_cancelled are not sent. Errors: those that it tells;
/// kInvalidArgument for an address that is none, and where the key is not taken; kPeerLost where it
/// cannot be reached or ends; kIo for what is no answer of such a server.
Result<SavedSnapshot> save_snapshot_of(const std::string& server, const std::string& admin_key,
                                       const SaveSnapshot& what);

/// A snapshot of the store, and whether an engine can be brought up from it here.
struct SnapshotCandidate {
  SnapshotInfo info;
  /// Why not; none: it can. kNotFound: it does not fit here, kCorruptData: it is damaged,
  /// kResourceExhausted: for want of memory alone.
  std::optional<Error> passed_over;
  bool has_plans = false;  ///< measured on this machine
};

/// What `name` could mean, the best first: the beginning of an id; a checkpoint's directory, or
/// "demo"; the name that a model is served under. Empty: all. Errors: those of opening the store.
Result<std::vector<SnapshotCandidate>> list_snapshots(const std::string& name,
                                                      const SnapshotOptions& options);

/// One part of bringing an engine up.
struct StageTime {
  std::string name;  ///< "select", "map", "populate", "verify", "plans", "canary"
  double seconds = 0;
  int64_t num_bytes = 0;  ///< that it handled; 0: it is not about bytes
  std::string how;        ///< in one line; may be empty
};

/// An engine from a snapshot, whose canary answered as it must.
struct BroughtUp {
  std::unique_ptr<Engine> engine;
  SnapshotInfo snapshot;
  std::vector<StageTime> stages;
};

/// Chooses the best snapshot for `name` and brings its engine up. options.engine.weights.verify:
/// kFull reads all bytes before the canary, kBackground behind it. Errors: kNotFound where nothing
/// fits, with a reason for each; kResourceExhausted for want of memory; kOverloaded where it is
/// being removed; kCorruptData where all that could be meant, or the chosen one, is damaged;
/// kInternal with field "canary" where an answer differs; as Engine::open.
Result<BroughtUp> bring_up(const std::string& name, const SnapshotOptions& options);

/// Reads every byte of a snapshot. `id`: the beginning of it. Errors: kNotFound, kCorruptData with
/// object, chunk and offset, kIo.
Result<SnapshotInfo> verify_snapshot(const std::string& id, const SnapshotOptions& options);

/// Forgets a snapshot; its objects stay until they are collected. Errors: kNotFound, kOverloaded
/// while an engine runs from it, kIo.
Result<void> remove_snapshot(const std::string& id, const SnapshotOptions& options);

/// What pin_snapshot() holds.
struct PinnedSnapshot {
  std::string id;
  int64_t num_bytes = 0;
  std::vector<std::string> notes;  ///< how; may be empty
};

/// Keeps weights and tensors of a snapshot in memory, verified, until SIGINT or SIGTERM comes:
/// engines that start meanwhile find them there and need not verify them. `sealed`: as a copy that
/// nobody can change. `ready` is called once, when that is so. Errors: kNotFound, kCorruptData,
/// kIo; kResourceExhausted where memory lacks or may not be locked, with both numbers.
Result<void> pin_snapshot(const std::string& id, bool sealed, const SnapshotOptions& options,
                          const std::function<void(const PinnedSnapshot& what)>& ready);

struct CollectSnapshots {
  std::string store = {};  ///< as WeightOptions
  int keep = 1;            ///< the newest of each model and class of instructions
  int64_t max_bytes = 0;   ///< what is not kept stays while there are no more bytes than this
  bool dry_run = false;    ///< tells what would go
};

struct CollectedSnapshots {
  std::vector<std::string> snapshots;  ///< ids that went
  std::vector<std::string> objects;    ///< that went
  std::vector<std::string> damaged;    ///< manifests that could not be read, and went
  int64_t num_bytes = 0;               ///< that went
  int64_t num_bytes_left = 0;
  int num_leftovers = 0;  ///< of work that was never finished
};

/// Takes away what no kept snapshot and no running engine needs. Errors: kOverloaded while another
/// process makes a snapshot or collects, kUnsupported for a manifest of another version, kIo.
Result<CollectedSnapshots> collect_snapshots(const CollectSnapshots& options);

/// How a command about snapshots ends with this error: 3 nothing fits, 4 damaged, 5 the canary
/// differs, 6 not enough memory, 7 busy; else as error_code_info.
int snapshot_exit_code(const Error& error);

}  // namespace stoker
