// The memory that an object's bytes lie in: pages of its file, or memory of this process alone that
// they are read into. At an address that is a multiple of 2 MiB, and with large pages asked for
// before the first touch, so that they are had where the system has them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/mapping_name.h"
#include "stoker/result.h"

namespace stoker::snapshot {

constexpr int64_t kLargePageBytes = int64_t{2} << 20;

/// Movable; gives its memory back when it goes. Constant members may be called from several
/// threads.
class ObjectMapping {
 public:
  /// Mirrors the first `bytes` (> 0) bytes of the file; all processes that do share one copy.
  /// Errors, with `path`: kIo; kResourceExhausted where no addresses are left.
  static Result<ObjectMapping> map(int fd, int64_t bytes, const std::string& path);
  /// Memory that nobody else sees, of at least `bytes` (> 0), rounded up to large pages; zero, and
  /// not there before it is populated. To be written until it is protected. Error:
  /// kResourceExhausted.
  static Result<ObjectMapping> anonymous(int64_t bytes, const std::string& path);

  /// All of the memory behind `fd` (memfd_create), which has `bytes` (> 0) bytes or these rounded
  /// up to large pages: to be written, and shared with who has the descriptor. Errors: as map().
  static Result<ObjectMapping> writable_memory(int fd, int64_t bytes, int64_t memory_bytes,
                                               const std::string& path);
  /// The same once it was sealed against writing, to be read.
  static Result<ObjectMapping> sealed_memory(int fd, int64_t bytes, int64_t memory_bytes,
                                             const std::string& path);

  ObjectMapping(ObjectMapping&& other) noexcept;
  ObjectMapping& operator=(ObjectMapping&&) = delete;
  ~ObjectMapping();

  Bytes bytes() const { return {data_, static_cast<size_t>(bytes_)}; }
  /// All of memory that is to be written, behind bytes() too.
  std::span<uint8_t> writable() { return {data_, static_cast<size_t>(mapped_bytes_)}; }
  /// From now on nobody writes anonymous memory. Error: kIo.
  Result<void> protect(const std::string& path);

  /// Has a range there, at multiples of pages, as it is after each page was read (anonymous memory:
  /// written). Returns 0, or an errno: EFAULT where the file was shortened or storage fails,
  /// ENOMEM. Where the system is too old to be asked (Linux 5.14), it touches the pages, and the
  /// first two of these are a SIGBUS.
  int populate(int64_t offset, int64_t bytes) const;

  /// From now on what comes stays in memory as long as this does. Returns 0, or an errno: ENOMEM or
  /// EPERM where this process may not lock so much.
  int lock() const;

  /// Whether its pages come again when they are read: those of a file, which the system may use for
  /// other things until then, or of memory that others hold. drop_pages() then lets go of them;
  /// locked ones stay. No effect on other memory.
  bool can_drop_pages() const { return !is_writable_; }
  void drop_pages() const;

  /// Gives its memory back; its addresses stay reserved, and who touches them ends the process.
  /// Error: kResourceExhausted; nothing has changed then.
  Result<void> let_go(const std::string& path);
  /// Puts the memory of another one, of as many bytes, at the addresses of this one, whose own
  /// memory goes. Error: kResourceExhausted; it is then as after let_go().
  Result<void> take_over(ObjectMapping&& other, const std::string& path);

  /// Bytes of it that are in large pages now, as /proc/self/smaps tells; 0 if it does not.
  int64_t large_page_bytes() const;

 private:
  struct Kind {
    int fd;
    int protection;
    int flags;
  };
  ObjectMapping(uint8_t* data, int64_t bytes, int64_t mapped_bytes, bool is_writable,
                const std::string& path)
      : data_(data),
        bytes_(bytes),
        mapped_bytes_(mapped_bytes),
        is_writable_(is_writable),
        name_(data, static_cast<size_t>(mapped_bytes), path) {}
  static Result<ObjectMapping> map_aligned(Kind kind, int64_t bytes, int64_t mapped_bytes,
                                           const std::string& path);

  uint8_t* data_;
  int64_t bytes_;
  int64_t mapped_bytes_;  // from data_ on, whole pages
  bool is_writable_;      // it is populated by writing
  MappingName name_;      // its path
};

}  // namespace stoker::snapshot
