#include "snapshot/pin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/machine.h"
#include "base/try.h"
#include "snapshot/sealed.h"

namespace stoker::snapshot {
namespace {

int64_t bytes_of_sections(const std::vector<Section>& sections) {
  int64_t bytes = 0;
  for (const Section& section : sections) bytes += section.bytes;
  return bytes;
}

constexpr int kPauseMs = 50;

Error lock_error(const std::string& path, int code, int64_t all_bytes) {
  rlimit limit{};
  if ((code != ENOMEM && code != EPERM) || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return system_error(path, "cannot be locked in memory", code);
  }
  return {ErrorCode::kResourceExhausted,
          path + ": expected to lock " + std::to_string(all_bytes) +
              " bytes in memory, found a limit of " + std::to_string(limit.rlim_cur) +
              " for this process (RLIMIT_MEMLOCK); raise it with ulimit -l (in KiB), "
              "LimitMEMLOCK= of a systemd unit or --ulimit memlock= of a container, or give the "
              "process CAP_IPC_LOCK",
          ""};
}

// Progress of one section as part of that of all, of which `done_bytes` are done.
Progress part_of(const Progress& progress, int64_t done_bytes, int64_t bytes, int64_t all_bytes) {
  if (!progress) return {};
  return [=, &progress](double fraction) {
    const double done = static_cast<double>(done_bytes) + fraction * static_cast<double>(bytes);
    progress(done / static_cast<double>(all_bytes));
  };
}

Result<void> check_memory(int64_t bytes) {
  const int64_t available = available_memory_bytes();
  if (bytes <= available) return {};
  return Error{ErrorCode::kResourceExhausted,
               "pin: expected " + std::to_string(bytes) +
                   " bytes of memory to be available, found " + std::to_string(available),
               ""};
}

// One object, locked and verified.
class Pinner {
 public:
  Pinner(const Store& store, const AttachOptions& options, int64_t all_bytes)
      : store_(store), options_(options), all_bytes_(all_bytes) {}

  // The object, and what may be said of it.
  Result<std::pair<Attached, PinRecord>> pin(const Section& section) const {
    TRY_ASSIGN(ObjectFile file, store_.open_object(section));
    TRY_ASSIGN(const PinRecord before, pin_record_of(file));
    TRY_ASSIGN(ObjectMapping mapping,
               ObjectMapping::map(file.file.get(), section.bytes, file.path));
    // Before the pass: none of what was verified can go and come back as something else.
    if (const int code = mapping.lock(); code != 0) return lock_error(file.path, code, all_bytes_);
    TRY_ASSIGN(Attached attached, attach(std::move(file), std::move(mapping), options_));
    TRY_ASSIGN(const ObjectFile after, store_.open_object(section));
    TRY_ASSIGN(const PinRecord now, pin_record_of(after));
    if (!(now == before)) {
      return Error{ErrorCode::kCorruptData, after.path + ": changed while it was pinned", ""};
    }
    return std::pair(std::move(attached), now);
  }

 private:
  const Store& store_;
  const AttachOptions& options_;
  const int64_t all_bytes_;
};

}  // namespace

int64_t Pinned::bytes() const {
  int64_t bytes = 0;
  for (const Attached& attached : objects_) bytes += attached.report.bytes;
  return bytes;
}

Result<void> Pinned::wait(int stop_fd) const {
  std::vector<pollfd> waited{{stop_fd, POLLIN, 0}};
  for (const HandoverSocket& socket : sockets_) waited.push_back({socket.fd(), POLLIN, 0});
  while (true) {
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) {
      return system_error("pin", "cannot wait");
    }
    if (waited[0].revents != 0) return {};
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (waited[i + 1].revents == 0 || sockets_[i].answer(sealed_[i])) continue;
      // Descriptors lack, or it went away: no reason to spin.
      if (::poll(waited.data(), 1, kPauseMs) > 0) return {};
    }
  }
}

Result<Pinned> pin_objects(const Store& store, const std::vector<Section>& sections,
                           int num_threads, const Progress& progress) {
  const int64_t all_bytes = bytes_of_sections(sections);
  if (auto checked = check_memory(all_bytes); !checked) return std::move(checked).error();
  Pinned pinned;
  for (const Section& section : sections) {
    AttachOptions options;
    options.num_threads = num_threads;
    options.choice = AttachChoice::kMapped;
    options.progress = part_of(progress, pinned.bytes(), section.bytes, all_bytes);
    TRY_ASSIGN(auto one, Pinner(store, options, all_bytes).pin(section));
    TRY_ASSIGN(Folder folder, folder_of_users(store));
    TRY_ASSIGN(PinMark mark, PinMark::leave(std::move(folder), one.second));
    pinned.objects_.push_back(std::move(one.first));
    pinned.marks_.push_back(std::move(mark));
  }
  return pinned;
}

Result<Pinned> pin_sealed(const Store& store, const std::vector<Section>& sections, int num_threads,
                          const Progress& progress) {
  const int64_t all_bytes = bytes_of_sections(sections);
  if (auto checked = check_memory(all_bytes); !checked) return std::move(checked).error();
  Pinned pinned;
  for (const Section& section : sections) {
    TRY_ASSIGN(ObjectFile file, store.open_object(section));
    TRY_ASSIGN(Sealed sealed,
               seal_object(std::move(file), num_threads,
                           part_of(progress, pinned.bytes(), section.bytes, all_bytes)));
    TRY_ASSIGN(Folder folder, folder_of_users(store));
    TRY_ASSIGN(HandoverSocket socket, HandoverSocket::listen(std::move(folder), section));
    pinned.objects_.push_back(std::move(sealed.attached));
    pinned.sealed_.push_back(std::move(sealed.memory));
    pinned.sockets_.push_back(std::move(socket));
  }
  return pinned;
}

Result<Descriptor> termination_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (const int code = ::pthread_sigmask(SIG_BLOCK, &signals, nullptr); code != 0) {
    return system_error("signals", "cannot be blocked", code);
  }
  Descriptor fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd.get() < 0) return system_error("signals", "cannot be waited for");
  return fd;
}

}  // namespace stoker::snapshot
