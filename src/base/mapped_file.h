// A file mapped read-only.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/mapping_name.h"
#include "stoker/result.h"

namespace stoker {

/// What tells that a file is the one that it was, without reading it: another content comes with
/// another time or another inode, unless somebody sets the time back.
struct FileIdentity {
  int64_t bytes = 0;
  int64_t changed_ns = 0;  ///< modification time, since 1970
  int64_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Owns a mapping; movable. bytes() is valid while it lives. Reading needs no lock. If somebody
/// else shortens the file while it is mapped, touching what is gone raises SIGBUS: see
/// stoker/process.h.
class MappedFile {
 public:
  /// Follows links. Errors: kNotFound, kIo (also for what is no regular file).
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  /// Unmaps it; its addresses stay reserved, and who touches them ends the process. Error:
  /// kResourceExhausted.
  Result<void> let_go();
  /// Maps it there again, if it is the same file. Errors: kNotFound, kIo, kCorruptData for another
  /// identity; it is then as after let_go().
  Result<void> map_again();
  /// Its pages may be used for other things until they are read again.
  void drop_pages() const;
  const std::string& path() const { return path_; }
  /// As it was when it was opened.
  const FileIdentity& identity() const { return identity_; }

 private:
  std::string path_;
  FileIdentity identity_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  MappingName name_;
};

/// Has a part of a mapped file read from disk, in the background, where it is not in memory. Half a
/// microsecond where it is.
void read_ahead(const uint8_t* from, int64_t bytes);

/// The whole of a small file, read into memory. Errors: kNotFound, kIo, kInvalidArgument beyond
/// max_bytes.
Result<std::string> read_file(const std::string& path, size_t max_bytes);

/// Writes a file so that a reader sees the old one or the whole new one: a temporary beside it,
/// synced, then renamed. Refuses to put a file in the place of anything else, such as /dev/null.
/// Errors: kNotFound for a missing folder, kResourceExhausted for a full disk, kIo.
Result<void> write_file_atomically(const std::string& path, Bytes bytes);

}  // namespace stoker
