#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "base/try.h"

namespace stoker {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

Error refused(const std::string& path, const std::string& what) {
  return {ErrorCode::kCorruptData, path + ": " + what, ""};
}

// Nobody but this user and root can have changed what has this status.
Result<void> check_owner(const struct stat& status, const std::string& path) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return refused(path, "expected a file of this user or root, found one of user " +
                             std::to_string(status.st_uid));
  }
  if ((status.st_mode & kOthersMayWrite) != 0) {
    char mode[16];
    std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777U);
    return refused(path, std::string("expected that only its owner can write it, found mode ") +
                             mode + "; make it so with chmod go-w, if you trust its content");
  }
  return {};
}

bool try_flock(int fd, int kind) {
  int result = -1;
  do {
    result = ::flock(fd, kind | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

Result<void> check_size(int64_t expected, int64_t found, const std::string& path) {
  if (expected == found) return {};
  return refused(path,
                 "expected " + std::to_string(expected) + " bytes, found " + std::to_string(found));
}

}  // namespace

Error system_error(const std::string& path, const std::string& what) {
  return system_error(path, what, errno);
}

Error system_error(const std::string& path, const std::string& what, int code) {
  ErrorCode kind = ErrorCode::kIo;
  if (code == ENOENT || code == ENOTDIR) kind = ErrorCode::kNotFound;
  if (code == ENOSPC || code == EDQUOT) kind = ErrorCode::kResourceExhausted;
  return {kind, path + ": " + what + ": " + std::generic_category().message(code), ""};
}

int read_at(int fd, int64_t offset, std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    out = out.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

int write_at(int fd, int64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

Result<void> sync_file(int fd, const std::string& path) {
  if (::fsync(fd) != 0) return system_error(path, "cannot be synced");
  return {};
}

bool try_lock(int fd) {
  return try_flock(fd, LOCK_EX);
}

bool try_lock_shared(int fd) {
  return try_flock(fd, LOCK_SH);
}

bool is_still_at(int folder_fd, const std::string& name, int fd) {
  struct stat named {};
  struct stat open {};
  return ::fstatat(folder_fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(fd, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

Result<Folder> Folder::open_at(int fd, const std::string& name, int flags, std::string path) {
  Descriptor folder(::openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  if (folder.get() < 0) return system_error(path, "cannot be opened as a folder");
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) return system_error(path, "cannot be examined");
  if (auto checked = check_owner(status, path); !checked) return std::move(checked).error();
  return Folder(std::move(folder), std::move(path));
}

Result<Folder> Folder::open(const std::string& path) {
  return open_at(AT_FDCWD, path, 0, path);
}

Result<Folder> Folder::open_folder(const std::string& name) const {
  return open_at(fd(), name, O_NOFOLLOW, path_of(name));
}

Result<void> Folder::make_folder(const std::string& name) const {
  if (::mkdirat(fd(), name.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return system_error(path_of(name), "cannot be created");
}

Result<Descriptor> Folder::open_file(const std::string& name) const {
  const std::string path = path_of(name);
  // O_NONBLOCK: a pipe of this name would wait for its writer.
  Descriptor file(::openat(fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ELOOP) {
    return refused(path, "expected a regular file, found a symbolic link");
  }
  if (file.get() < 0) return system_error(path, "cannot be opened");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(status.st_mode)) return refused(path, "expected a regular file");
  if (auto checked = check_owner(status, path); !checked) return std::move(checked).error();
  return file;
}

Result<Descriptor> Folder::open_file(const std::string& name, int64_t bytes) const {
  TRY_ASSIGN(Descriptor file, open_file(name));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path_of(name), "cannot be examined");
  auto checked = check_size(bytes, status.st_size, path_of(name));
  if (!checked) return std::move(checked).error();
  return file;
}

Result<std::string> Folder::read_file(const std::string& name, size_t max_bytes) const {
  TRY_ASSIGN(const Descriptor file, open_file(name));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path_of(name), "cannot be examined");
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes > max_bytes) {
    return refused(path_of(name), "expected at most " + std::to_string(max_bytes) +
                                      " bytes, found " + std::to_string(bytes));
  }
  std::string text(bytes, '\0');
  const int code = read_at(file.get(), 0, {reinterpret_cast<uint8_t*>(text.data()), bytes});
  if (code != 0) return system_error(path_of(name), "cannot be read", code);
  return text;
}

Result<Descriptor> Folder::create_file(const std::string& name) const {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(::openat(fd(), name.c_str(), flags, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return system_error(path_of(name), "cannot be created");
  return file;
}

Result<void> Folder::write_file(const std::string& name, std::string_view text) const {
  TRY_ASSIGN(const Descriptor file, create_file(name));
  const std::string path = path_of(name);
  const Bytes bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  if (const int code = write_at(file.get(), 0, bytes); code != 0) {
    return system_error(path, "cannot be written", code);
  }
  if (::fchmod(file.get(), S_IRUSR) != 0) return system_error(path, "cannot be made read-only");
  return sync_file(file.get(), path);
}

Result<void> Folder::move_file(const std::string& name, const Folder& to,
                               const std::string& to_name) const {
  if (::renameat(fd(), name.c_str(), to.fd(), to_name.c_str()) == 0) return {};
  return system_error(to.path_of(to_name), "cannot be put in its place");
}

Result<void> Folder::remove_file(const std::string& name) const {
  if (::unlinkat(fd(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return system_error(path_of(name), "cannot be removed");
}

Result<void> Folder::sync() const {
  return sync_file(fd(), path_);
}

Result<void> Folder::check_writable() const {
  if (::faccessat(fd(), ".", W_OK | X_OK, AT_EACCESS) == 0) return {};
  return system_error(path_, "cannot be written");
}

Result<std::vector<std::string>> Folder::names() const {
  // Its own open folder: the place of the next name is the descriptor's.
  const int fd = ::openat(this->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(path_, "cannot be listed");
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd), ::closedir);
  if (!folder) {
    const Descriptor closes(fd);
    return system_error(path_, "cannot be listed");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

}  // namespace stoker
