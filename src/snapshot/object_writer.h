// An object in the making: written in tmp/, seen by nobody before it is whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "snapshot/chunk_table.h"
#include "snapshot/section.h"
#include "snapshot/work_folder.h"
#include "stoker/result.h"

namespace stoker::snapshot {

/// The open folders of a store that can be written.
struct StoreFolders {
  Folder objects;
  Folder keys;
  Folder tmp;
  Folder snapshots;
  Folder use;
};

/// Movable; its store outlives it. Destroyed before it is published, or with its process, it leaves
/// nothing that is found.
///
/// One writes by calls, not into a mapping: a full disk or failing storage is an error of the call
/// and no SIGBUS, also where the file system could not reserve the space, and no page of the file
/// costs a fault.
class ObjectWriter {
 public:
  /// Reserves space for `bytes` bytes. Errors: kInvalidArgument for what check_section refuses,
  /// kResourceExhausted where space lacks (with both numbers), kIo.
  static Result<ObjectWriter> create(const StoreFolders& folders, const std::string& kind,
                                     int64_t bytes);

  int64_t bytes() const { return section_.bytes; }

  /// Writes a part; what is never written is zero. Several threads may write parts that do not
  /// overlap. Errors: kInvalidArgument for a part beyond the end, kResourceExhausted, kIo (also
  /// after publish).
  Result<void> write(int64_t offset, Bytes part) const;

  /// Makes the object last and findable under `key`: reads it for its chunk table with
  /// `num_threads` threads (`progress` tells of that), syncs, and puts it and then its key in their
  /// places. An object of the same content that is there already is kept if all its bytes are good,
  /// and replaced otherwise. Called once, after all writes. Errors: kIo, kResourceExhausted; then
  /// nothing new is found.
  Result<Section> publish(const Digest& key, int num_threads, const Progress& progress = {});

 private:
  ObjectWriter(const StoreFolders& folders, Section section, WorkFolder work, Descriptor file);

  Result<void> place_object(const std::string& table, int num_threads) const;
  Result<void> place_key() const;
  std::string path() const;

  const StoreFolders* folders_;
  Section section_;  // its digests and key are known when it is published
  WorkFolder work_;
  Descriptor file_;
};

/// The file of a key, and of its lock without ".lock": "<kind>-<key>".
std::string key_name(const std::string& kind, const Digest& key);

}  // namespace stoker::snapshot
