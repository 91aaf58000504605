// An object of the store, mapped for reading, with the table by which each of its chunks is
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/folder.h"
#include "snapshot/chunk_table.h"
#include "snapshot/section.h"
#include "stoker/result.h"

namespace stoker::snapshot {

/// Memory that mirrors a file, at an address that is a multiple of 2 MiB, so that large pages of
/// the page cache are mapped as such. Movable.
class ObjectMapping {
 public:
  /// The first `bytes` (> 0) bytes of the file. Error: kIo, with `path`.
  static Result<ObjectMapping> map(int fd, int64_t bytes, const std::string& path);

  ObjectMapping(ObjectMapping&& other) noexcept;
  ObjectMapping& operator=(ObjectMapping&&) = delete;
  ~ObjectMapping();

  Bytes bytes() const { return {data_, size_}; }

 private:
  ObjectMapping(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_;
  size_t size_;
};

/// A mapped object. Movable; const members may be called from several threads. Its file, size,
/// owner and table are checked; whether the bytes are those of the table is checked when the caller
/// asks, for it reads them all. The store never changes a file, and a removed one stays mapped. But
/// storage that fails, or somebody who shortens the file, still is a SIGBUS (stoker/process.h).
class Object {
 public:
  /// Maps a section from the folder of objects. Errors: kInvalidArgument for a section beyond its
  /// limits, kNotFound, kIo, and kCorruptData with the reason.
  static Result<Object> open(const Folder& objects, const Section& section);

  const Section& section() const { return section_; }
  /// Borrows from the mapping.
  Bytes bytes() const { return mapping_.bytes(); }

  int64_t num_chunks() const { return section_.num_chunks(); }
  /// Reads chunk `chunk_idx`, in [0, num_chunks()).
  bool chunk_is_good(int64_t chunk_idx) const;
  /// Which object, chunk and offset are damaged: the kCorruptData for a chunk that is not good.
  Error chunk_error(int64_t chunk_idx) const;
  /// Reads all chunks with `num_threads` threads, the caller's among them. Error: kCorruptData of
  /// the first chunk that is not good, whatever the number of threads.
  Result<void> verify(int num_threads, const Progress& progress = {}) const;

 private:
  Object(Section section, std::string path, std::vector<uint64_t> table, ObjectMapping mapping);

  Section section_;
  std::string path_;  // for messages
  std::vector<uint64_t> table_;
  ObjectMapping mapping_;
};

/// The file beside an object that holds its table.
std::string table_name(const Section& section);

}  // namespace stoker::snapshot
