// An object of the store in memory, with the table by which each of its chunks is checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/folder.h"
#include "snapshot/chunk_table.h"
#include "snapshot/object_mapping.h"
#include "snapshot/section.h"
#include "stoker/result.h"

namespace stoker::snapshot {

/// The file of an object that was found fit to be read: it is of this user or root, writable for
/// nobody else, of the size of its section, and its table is that of its name. Movable.
struct ObjectFile {
  /// Errors: kInvalidArgument for a section beyond its limits, kNotFound, kIo, and kCorruptData
  /// with the reason.
  static Result<ObjectFile> open(const Folder& objects, const Section& section);

  /// Why bytes of it could not be had: kCorruptData if the file has another size by now, else the
  /// errno's error.
  Error read_error(int code) const;
  /// Which object, chunk and offset are damaged: the kCorruptData for a chunk that is not good.
  Error chunk_error(int64_t chunk_idx) const;

  Section section;
  std::string path;  ///< for messages
  std::vector<uint64_t> table;
  Descriptor file;
};

/// An object in memory. Movable; const members may be called from several threads. Its file, size,
/// owner and table are checked; whether the bytes are those of the table is checked when the caller
/// asks, for it reads them all (attach.h does so while it brings them). The store never changes a
/// file, and a removed one stays mapped. But storage that fails, or somebody who shortens the file,
/// still is a SIGBUS for who reads its mapping (stoker/process.h).
class Object {
 public:
  /// Maps a section from the folder of objects. Errors: those of ObjectFile::open and
  /// ObjectMapping::map.
  static Result<Object> open(const Folder& objects, const Section& section);
  /// The object of that file, whose bytes are there, or come, in that memory.
  Object(ObjectFile file, ObjectMapping mapping);

  const Section& section() const { return file_.section; }
  /// Borrows from the mapping.
  Bytes bytes() const { return mapping_.bytes(); }

  /// Has all its bytes in memory, and keeps them there. Returns 0, or an errno: see
  /// ObjectMapping::lock and populate.
  int lock() const;
  bool can_drop_pages() const { return mapping_.can_drop_pages(); }  ///< as ObjectMapping's
  void drop_pages() const { mapping_.drop_pages(); }                 ///< the same

  /// As ObjectMapping's: nobody reads its bytes until another one took over. Error: the same.
  Result<void> let_go() { return mapping_.let_go(file_.path); }
  /// Becomes another object of the same section, perhaps of another store, at its own addresses.
  /// Error: that of ObjectMapping::take_over.
  Result<void> take_over(Object&& other);

  int64_t num_chunks() const { return file_.section.num_chunks(); }
  /// Reads chunk `chunk_idx`, in [0, num_chunks()).
  bool chunk_is_good(int64_t chunk_idx) const;
  Error chunk_error(int64_t chunk_idx) const { return file_.chunk_error(chunk_idx); }
  /// Reads the chunks that the first `bytes` bytes are in; all, if there are fewer. Error:
  /// kCorruptData of the first one that is not good.
  Result<void> verify_head(int64_t bytes) const;
  /// Reads all chunks with `num_threads` threads, the caller's among them. Error: kCorruptData of
  /// the first chunk that is not good, whatever the number of threads.
  Result<void> verify(int num_threads, const Progress& progress = {}) const;

 private:
  ObjectFile file_;  // its descriptor is closed
  ObjectMapping mapping_;
};

/// The file beside an object that holds its table.
std::string table_name(const Section& section);

}  // namespace stoker::snapshot
