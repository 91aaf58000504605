#include "snapshot/use_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr std::chrono::milliseconds kUsePeriod{100};

}  // namespace

Result<UseLock> UseLock::try_take(const Folder& use, const std::string& name, Sharing sharing) {
  while (true) {
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Descriptor lock(::openat(use.fd(), name.c_str(), flags, S_IRUSR | S_IWUSR));
    if (lock.get() < 0) return system_error(use.path_of(name), "cannot be opened");
    const bool has_it =
        sharing == Sharing::kAlone ? try_lock(lock.get()) : try_lock_shared(lock.get());
    if (!has_it && errno != EWOULDBLOCK) return system_error(use.path_of(name), "cannot be locked");
    if (!has_it)
      return Error{ErrorCode::kOverloaded, use.path_of(name) + ": in use by another process", ""};
    if (is_still_at(use.fd(), name, lock.get())) return UseLock(use.fd(), name, std::move(lock));
  }
}

Result<UseLock> UseLock::take(const Folder& use, const std::string& name, Sharing sharing,
                              const WaitSink& wait) {
  while (true) {
    auto lock = try_take(use, name, sharing);
    if (lock || !wait || lock.error().code != ErrorCode::kOverloaded) return lock;
    if (!wait("waiting: " + lock.error().message))
      return Error{ErrorCode::kCancelled, "gave up waiting: " + lock.error().message, ""};
    std::this_thread::sleep_for(kUsePeriod);
  }
}

void UseLock::remove_file() const {
  ::unlinkat(use_fd_, name_.c_str(), 0);
}

}  // namespace stoker::snapshot
