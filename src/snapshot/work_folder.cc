#include "snapshot/work_folder.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "base/try.h"
#include "snapshot/digest.h"

namespace stoker::snapshot {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::string_view kLockSuffix = ".lock";
constexpr std::chrono::milliseconds kWaitPeriod{200};
constexpr int kMaxTries = 10;  // of making a folder that others take for a leftover

std::string random_name() {
  Digest random;
  // At most 256 bytes are never cut short. Without randomness another process may have this name,
  // and a folder that is there is not taken.
  if (::getrandom(random.bytes.data(), random.bytes.size(), 0) < 0) {
    random = Hasher().add_number(::getpid()).digest();
  }
  return random.hex();
}

// Removes a folder whose lock is held here; the lock last, so that a folder without one is empty.
bool remove_folder(int tmp_fd, const std::string& name, const Folder& folder) {
  if (const auto names = folder.names()) {
    for (const std::string& file : *names) {
      if (file != kLockName) ::unlinkat(folder.fd(), file.c_str(), 0);
    }
  }
  ::unlinkat(folder.fd(), kLockName, 0);
  return ::unlinkat(tmp_fd, name.c_str(), AT_REMOVEDIR) == 0;
}

// Opens a file of tmp/ that is there; -1 if there is none.
Descriptor open_lock(int folder_fd, const std::string& name) {
  return Descriptor(
      ::openat(folder_fd, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
}

bool remove_left_folder(const Folder& tmp, const std::string& name) {
  const auto folder = tmp.open_folder(name);
  if (!folder) return false;
  const Descriptor lock = open_lock(folder->fd(), kLockName);
  // Its maker was ended between two calls, or makes the lock right now and sees that the folder is
  // gone: only an empty folder goes without a lock.
  if (lock.get() < 0) return ::unlinkat(tmp.fd(), name.c_str(), AT_REMOVEDIR) == 0;
  if (!try_lock(lock.get())) return false;
  return remove_folder(tmp.fd(), name, *folder);
}

void remove_left_lock(const Folder& tmp, const std::string& name) {
  const Descriptor lock = open_lock(tmp.fd(), name);
  if (lock.get() < 0 || !try_lock(lock.get())) return;
  if (is_still_at(tmp.fd(), name, lock.get())) ::unlinkat(tmp.fd(), name.c_str(), 0);
}

// The process that wrote its number into the lock; 0 if it has not yet.
int64_t holder_of(int fd) {
  std::array<char, 20> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  int64_t pid = 0;
  if (n > 0) std::from_chars(text.data(), text.data() + n, pid);
  return std::max<int64_t>(pid, 0);
}

std::string why_waiting(const std::string& name, int fd) {
  const int64_t pid = holder_of(fd);
  const std::string who = pid > 0 ? "process " + std::to_string(pid) : "another process";
  return "waiting for " + who + ", which makes " + name;
}

// Only for messages; a lock without it is as good.
void write_holder(int fd) {
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0) return;
  (void)write_at(fd, 0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

WorkFolder::WorkFolder(int tmp_fd, std::string name, Folder folder, Descriptor lock)
    : tmp_fd_(tmp_fd), name_(std::move(name)), folder_(std::move(folder)), lock_(std::move(lock)) {}

WorkFolder::~WorkFolder() {
  if (lock_.get() >= 0) remove_folder(tmp_fd_, name_, folder_);
}

Result<WorkFolder> WorkFolder::create(const Folder& tmp) {
  for (int i = 0; i < kMaxTries; ++i) {
    const std::string name = random_name();
    if (::mkdirat(tmp.fd(), name.c_str(), S_IRWXU) != 0) {
      return system_error(tmp.path_of(name), "cannot be created");
    }
    // Until the lock is held, remove_leftovers of another process takes the folder for its own.
    auto folder = tmp.open_folder(name);
    if (!folder && folder.error().code == ErrorCode::kNotFound) continue;
    if (!folder) return std::move(folder).error();
    auto lock = folder->create_file(kLockName);
    if (!lock && lock.error().code == ErrorCode::kNotFound) continue;
    if (!lock) {
      ::unlinkat(tmp.fd(), name.c_str(), AT_REMOVEDIR);
      return std::move(lock).error();
    }
    if (try_lock(lock->get()) && is_still_at(folder->fd(), kLockName, lock->get())) {
      return WorkFolder(tmp.fd(), name, *std::move(folder), *std::move(lock));
    }
  }
  return Error{ErrorCode::kIo,
               tmp.path() + ": expected a folder that stays, found it removed by others " +
                   std::to_string(kMaxTries) + " times",
               ""};
}

KeyLock::KeyLock(int tmp_fd, std::string file_name, Descriptor lock)
    : tmp_fd_(tmp_fd), file_name_(std::move(file_name)), lock_(std::move(lock)) {}

KeyLock::~KeyLock() {
  // Those that wait have it open, and see that the name is gone or another file's.
  if (lock_.get() >= 0) ::unlinkat(tmp_fd_, file_name_.c_str(), 0);
}

Result<KeyLock> KeyLock::take(const Folder& tmp, const std::string& name, const WaitSink& wait) {
  const std::string file_name = name + std::string(kLockSuffix);
  while (true) {
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Descriptor lock(::openat(tmp.fd(), file_name.c_str(), flags, S_IRUSR | S_IWUSR));
    if (lock.get() < 0) return system_error(tmp.path_of(file_name), "cannot be opened");
    while (!try_lock(lock.get())) {
      if (errno != EWOULDBLOCK) return system_error(tmp.path_of(file_name), "cannot be locked");
      const std::string why = why_waiting(name, lock.get());
      if (wait && !wait(why)) return Error{ErrorCode::kCancelled, "gave up " + why, ""};
      std::this_thread::sleep_for(kWaitPeriod);
    }
    if (!is_still_at(tmp.fd(), file_name, lock.get())) continue;
    write_holder(lock.get());
    return KeyLock(tmp.fd(), file_name, std::move(lock));
  }
}

int remove_leftovers(const Folder& tmp) {
  const auto names = tmp.names();
  if (!names) return 0;
  int num_removed = 0;
  for (const std::string& name : *names) {
    if (Digest::from_hex(name)) {
      if (remove_left_folder(tmp, name)) ++num_removed;
    } else if (name.ends_with(kLockSuffix)) {
      remove_left_lock(tmp, name);
    }
  }
  return num_removed;
}

}  // namespace stoker::snapshot
