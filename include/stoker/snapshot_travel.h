// Snapshots that travel: what differs between two, one as a stream of bytes, and catalogues, which
// are folders or servers that hold many (docs/snapshots.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/result.h"
#include "stoker/snapshot.h"

namespace stoker {

/// A line of a manifest that says something else in the other; "" where it has none.
struct SnapshotFieldDiff {
  std::string name;  ///< "engine.build"
  std::string in_a;
  std::string in_b;
};

/// A section; the object is "" where a snapshot has none of that name.
struct SnapshotPartDiff {
  std::string name;
  SnapshotPart in_a;
  SnapshotPart in_b;
  bool is_shared = false;  ///< both name the same object
};

struct SnapshotDiff {
  std::string id_a;
  std::string id_b;
  std::vector<SnapshotFieldDiff> fields;  ///< those that differ
  std::vector<SnapshotPartDiff> parts;    ///< all, by name
  int64_t num_bytes_shared = 0;
  int64_t num_bytes_only_a = 0;
  int64_t num_bytes_only_b = 0;
};

/// `a`, `b`: the beginning of an id. Errors: kNotFound, kInvalidArgument, kCorruptData, kIo.
Result<SnapshotDiff> diff_snapshots(const std::string& a, const std::string& b,
                                    const SnapshotOptions& options);

/// Writes a snapshot with its objects to a file, which is there once it is whole, or to standard
/// output ("-"). Each byte is held against its digest before. Errors: kNotFound, kInvalidArgument,
/// kUnsupported with cached prefixes in it, which stay on their host, kOverloaded while it is
/// removed, kCorruptData, kResourceExhausted, kIo.
Result<SnapshotInfo> export_snapshot(const std::string& id, const std::string& file,
                                     const SnapshotOptions& options);

/// Puts into the store what export_snapshot wrote, from a file or standard input ("-"). Nothing is
/// seen of it before all of it was good. Errors: kNotFound, kCorruptData with the place in the
/// stream, kUnsupported for another version or cached prefixes, kResourceExhausted, kOverloaded
/// while the store is collected, kIo.
Result<SnapshotInfo> import_snapshot(const std::string& file, const SnapshotOptions& options);

/// Puts a snapshot into a catalogue, a folder that is made where nothing is, and lists it in its
/// index. What the catalogue lacks travels, and goes on where it was. Errors: those of
/// export_snapshot; kUnsupported for a server.
Result<SnapshotInfo> push_snapshot(const std::string& id, const std::string& target,
                                   const SnapshotOptions& options);

/// Brings a snapshot from a catalogue, a folder or http(s)://, into the store: `name` is the
/// beginning of an id, at least 4 digits, or the name of a model; then the newest that fits this
/// host and these options. What the store lacks travels, and goes on where it was. Errors:
/// kNotFound where nothing fits, with a reason for each; kPeerLost where a server cannot be
/// reached; kCorruptData for what is not as it must be; kUnsupported, also for one with cached
/// prefixes; kResourceExhausted, kOverloaded, kIo.
Result<SnapshotInfo> pull_snapshot(const std::string& name, const std::string& source,
                                   const SnapshotOptions& options);

}  // namespace stoker
