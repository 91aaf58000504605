// Files relative to a folder that is open: what is checked of a file is checked of the one that is
// then used, whatever happens to names meanwhile. Also the calls of the system under them, whole
// and with errors that name the path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "stoker/result.h"

namespace stoker {

/// "path: what: " and the meaning of an errno, the last one if none is given. kNotFound for what is
/// missing, kResourceExhausted for a full disk or quota, else kIo.
Error system_error(const std::string& path, const std::string& what);
Error system_error(const std::string& path, const std::string& what, int code);

/// Fills `out` from an offset of the file. Returns 0, or the errno; EIO for a file that ends early.
int read_at(int fd, int64_t offset, std::span<uint8_t> out);
/// Writes all bytes at an offset. Returns 0, or the errno.
int write_at(int fd, int64_t offset, Bytes bytes);
/// fsync. Error: kIo.
Result<void> sync_file(int fd, const std::string& path);
/// Takes an exclusive flock if nobody holds one.
bool try_lock(int fd);
/// Takes a flock that others can share, if nobody holds an exclusive one.
bool try_lock_shared(int fd);
/// Whether `name` in `folder_fd` is the very file that is open as `fd`, and not a later one.
bool is_still_at(int folder_fd, const std::string& name, int fd);

/// An open folder. Movable; its constant members may be called from several threads.
class Folder {
 public:
  /// Follows links. Errors: kNotFound, kIo; kCorruptData if others than this user and root could
  /// write in it.
  static Result<Folder> open(const std::string& path);
  /// The same for a folder in this one, which may not be a link.
  Result<Folder> open_folder(const std::string& name) const;
  /// Makes a folder of mode 0700; one that is there is as good. Errors: as system_error.
  Result<void> make_folder(const std::string& name) const;

  /// Opens a file for reading if it can be trusted: a regular file, no link, of this user or root,
  /// writable for its owner at most. Errors: kNotFound, kIo, kCorruptData with the reason.
  Result<Descriptor> open_file(const std::string& name) const;
  /// The same, and its size must be `bytes` (kCorruptData).
  Result<Descriptor> open_file(const std::string& name, int64_t bytes) const;
  /// The whole of such a file; kCorruptData beyond max_bytes.
  Result<std::string> read_file(const std::string& name, size_t max_bytes) const;
  /// Creates a file of mode 0600, open for reading and writing. Errors: as system_error.
  Result<Descriptor> create_file(const std::string& name) const;
  /// Creates a file of mode 0400 with this content, synced. Errors: as system_error.
  Result<void> write_file(const std::string& name, std::string_view text) const;

  /// Puts a file of this folder in the place of `to_name` in another. Errors: as system_error.
  Result<void> move_file(const std::string& name, const Folder& to,
                         const std::string& to_name) const;
  /// Removes a file; none is as good. Errors: as system_error.
  Result<void> remove_file(const std::string& name) const;
  /// Makes the names in it last. Error: kIo.
  Result<void> sync() const;

  /// Success, or why no file can be made in it.
  Result<void> check_writable() const;
  /// Names in it, but for "." and "..". Errors: as system_error.
  Result<std::vector<std::string>> names() const;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

 private:
  Folder(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  static Result<Folder> open_at(int fd, const std::string& name, int flags, std::string path);

  Descriptor fd_;
  std::string path_;  // for messages
};

}  // namespace stoker
