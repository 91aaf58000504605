// The snapshots of a store: a snapshot is there if and only if its manifest is.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "snapshot/manifest.h"
#include "snapshot/store.h"
#include "snapshot/use_lock.h"

namespace stoker::snapshot {

/// What of a snapshot is not as its manifest says, found without reading the bytes of its objects.
struct MissingPart {
  Section section;
  Error why;  ///< kNotFound, kCorruptData or kIo
};

/// Borrows a store that outlives it and does not move. Members may be called from several threads
/// and processes at once.
class Snapshots {
 public:
  explicit Snapshots(const Store& store) : store_(&store) {}

  /// The ids that a manifest in the folder has as its name, ascending. Error: kIo.
  Result<std::vector<Digest>> ids() const;

  /// The one id that begins with these hexadecimal digits. Errors: kNotFound, kInvalidArgument for
  /// several or for what is none, kIo.
  Result<Digest> id_of(const std::string& start) const;

  /// The manifest of that name, which must have the id of its name. Errors: kNotFound, kIo,
  /// kCorruptData, kUnsupported for another version.
  Result<Manifest> read(const Digest& id) const;
  /// The bytes of it, for a signature. The same errors but the last.
  Result<std::string> text(const Digest& id) const;

  /// The first section whose object is not there with the right size and chunk table; none if all
  /// are. Those of the kinds `but_for` are not looked at.
  std::optional<MissingPart> missing_part(const Manifest& manifest,
                                          std::span<const std::string_view> but_for = {}) const;

  /// Held by whoever makes or removes objects for snapshots: kShared by those that make, kAlone by
  /// the one that collects. Errors: as UseLock::take; kIo on a store that cannot be written.
  Result<UseLock> change(Sharing sharing, const WaitSink& wait = {}) const;

  /// Held while an engine runs from a snapshot, so that it is not collected. Errors: as
  /// UseLock::try_take, also for a store that cannot be written: nobody there collects.
  Result<UseLock> use(const Digest& id, Sharing sharing) const;

  /// Makes a snapshot of objects that are all there; with a signature where one is given. The same
  /// one that is there already is as good. Errors: kInvalidArgument, kNotFound with the object,
  /// kIo, kResourceExhausted.
  Result<void> publish(const Manifest& manifest, const std::string& signature = "") const;

  /// Forgets a snapshot; its objects stay. Errors: kIo.
  Result<void> remove(const Digest& id) const;

  /// What publish was given; "" where there is none. Errors: kIo, kCorruptData.
  Result<std::string> signature(const Digest& id) const;

 private:
  const Store* store_;
};

}  // namespace stoker::snapshot
