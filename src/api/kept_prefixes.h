// The cached prefixes of an engine as one object of a snapshot, and back (docs/formats.md, 11).
// They hold what users wrote: the object is its owner's alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "snapshot/manifest.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// What stands in front of prefixes of these sizes.
std::string kept_prefixes_head(std::span<const KeptPrefix> prefixes);

/// The saved prefixes in the bytes of an object, each at least a byte, at most kMaxSavedPrefixes;
/// of what is in them nothing is looked at. Borrows. Errors: kCorruptData, kUnsupported for another
/// version.
Result<std::vector<Bytes>> split_kept_prefixes(Bytes bytes);

/// What the prefix cache holds without a salt, the one last used first, within the limits of
/// SaveSnapshot. Errors: those of Engine::cached_prefixes.
Result<std::vector<KeptPrefix>> take_prefixes(Engine& engine, int max_prefixes);

/// Puts prefixes, at least one, into the store. Errors: those of the store; kIo where the same
/// object is there and another user's.
Result<snapshot::Section> put_prefixes(const snapshot::Store& store,
                                       std::span<const KeptPrefix> prefixes);

/// What became of the prefixes of a snapshot.
struct LoadedPrefixes {
  int num_loaded = 0;
  int num_dropped = 0;     ///< of those that could be read
  int64_t num_tokens = 0;  ///< of those that were loaded, each counted by itself
  std::string why = {};    ///< something was dropped; "": nothing was
};

/// Puts the prefixes of a section into the engine's prefix cache, the one last used last, so that
/// it stays longest. Whatever is wrong with them, or with the object, they are dropped: a prefix
/// saves time, and no answer depends on it.
LoadedPrefixes load_prefixes(Engine& engine, const snapshot::Store& store,
                             const snapshot::Section& section, int num_threads);

}  // namespace stoker
