#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/descriptor.h"
#include "base/folder.h"
#include "base/reserved_memory.h"

namespace stoker {
namespace {

// Of an open regular file.
Result<FileIdentity> identity_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kIo, path + ": expected a regular file", ""};
  constexpr int64_t kNanoseconds = 1'000'000'000;
  return FileIdentity{status.st_size, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec,
                      static_cast<int64_t>(status.st_ino)};
}

Result<void> write_all(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  if (::fsync(fd) != 0) return system_error(path, "cannot be synced");
  return {};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(path, "cannot be opened");
  const auto identity = identity_of(file.get(), path);
  if (!identity) return identity.error();
  const auto size = static_cast<size_t>(identity->bytes);
  MappedFile mapped;
  mapped.path_ = path;
  mapped.identity_ = *identity;
  if (size == 0) return mapped;  // nothing to map
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return system_error(path, "cannot be mapped");
  mapped.data_ = static_cast<const uint8_t*>(data);
  mapped.size_ = size;
  mapped.name_ = MappingName(data, size, path);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      name_(std::move(other.name_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(name_, other.name_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

Result<void> MappedFile::let_go() {
  if (data_ == nullptr) return {};
  name_ = MappingName();
  return ReservedMemory::put_at(const_cast<uint8_t*>(data_), size_, path_);
}

Result<void> MappedFile::map_again() {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(path_, "cannot be opened");
  const auto identity = identity_of(file.get(), path_);
  if (!identity) return identity.error();
  if (*identity != identity_) {
    return Error{ErrorCode::kCorruptData,
                 path_ + ": expected the file that was mapped before, of " +
                     std::to_string(identity_.bytes) + " bytes, found one of " +
                     std::to_string(identity->bytes) + ", another time or another inode",
                 ""};
  }
  if (size_ == 0) return {};
  void* const at = const_cast<uint8_t*>(data_);
  if (::mmap(at, size_, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED)
    return system_error(path_, "cannot be mapped");
  name_ = MappingName(data_, size_, path_);
  return {};
}

void MappedFile::drop_pages() const {
  if (data_ != nullptr) (void)::madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);
}

void read_ahead(const uint8_t* from, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(from) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(bytes);
  // Advice: where it is not taken, the page comes when it is touched.
  (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_WILLNEED);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(path, "cannot be opened");
  const auto identity = identity_of(file.get(), path);
  if (!identity) return identity.error();
  const auto size = static_cast<size_t>(identity->bytes);
  if (size > max_bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 path + ": expected at most " + std::to_string(max_bytes) + " bytes, found " +
                     std::to_string(size),
                 ""};
  }
  std::string text(size, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "cannot be read");
    if (n == 0) break;  // shortened since
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

Result<void> write_file_atomically(const std::string& path, Bytes bytes) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kIo, path + ": expected a regular file or none", ""};
  }
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) return system_error(path, "cannot be created");
    if (auto written = write_all(file.get(), bytes, temporary); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = system_error(path, "cannot be renamed into place");
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

}  // namespace stoker
