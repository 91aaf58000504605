#include "snapshot/pin_record.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "base/try.h"
#include "snapshot/text_lines.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kPinFormat = "1";
constexpr std::string_view kPinPrefix = "pin-";
constexpr size_t kSuffixDigits = 8;
constexpr int kMaxMarkTries = 10;  // of making a file that others take for a left one

// The boot id of the running system: a process of another host, or of before, is none of ours.
std::optional<Digest> this_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  return Digest::from_hex(text);
}

std::string mark_prefix(const std::string& object) {
  return std::string(kPinPrefix) + object + ".";
}

// A name that no other process takes.
Result<std::string> mark_name(const std::string& object) {
  std::array<uint8_t, kSuffixDigits / 2> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return system_error(object, "no random bytes");
  }
  return mark_prefix(object) + digest_of(random).hex().substr(0, kSuffixDigits);
}

std::string runtime_dir() {
  const char* const dir = std::getenv("XDG_RUNTIME_DIR");
  return dir != nullptr && dir[0] == '/' ? dir : "";
}

// Whether the file of that name says that what is wanted is pinned; else why not.
Result<PinRecord> believed_record(const Folder& folder, const std::string& name,
                                  const PinRecord& wanted) {
  TRY_ASSIGN(const Descriptor file, folder.open_file(name));
  // With the lock free, its process has ended; it is given back at once.
  if (try_lock_shared(file.get())) {
    return Error{ErrorCode::kNotFound, folder.path_of(name) + ": its pinner has ended", ""};
  }
  if (errno != EWOULDBLOCK) return system_error(folder.path_of(name), "cannot be locked");
  std::string text(kMaxPinRecordBytes + 1, '\0');
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  if (n < 0) return system_error(folder.path_of(name), "cannot be read");
  text.resize(static_cast<size_t>(n));
  auto record = parse_pin_record(text);
  if (!record) return record.error().with(folder.path_of(name));
  PinRecord same = wanted;
  same.pid = record->pid;
  if (*record == same) return record;
  return Error{ErrorCode::kNotFound, folder.path_of(name) + ": pins another file or an older state",
               ""};
}

void look_in(const Folder& folder, const PinRecord& wanted, FoundPinner& found) {
  const auto names = folder.names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (found.record || !name.starts_with(mark_prefix(wanted.object))) continue;
    auto record = believed_record(folder, name, wanted);
    if (record) {
      found = {*std::move(record), ""};
    } else {
      found.reason = record.error().message;
    }
  }
}

}  // namespace

std::string pin_record_text(const PinRecord& record) {
  std::string text = "format=" + std::string(kPinFormat);
  text += "\nobject=" + record.object;
  text += "\npid=" + std::to_string(record.pid);
  text += "\nhost=" + record.host.hex();
  text += "\ndevice=" + std::to_string(record.device);
  text += "\ninode=" + std::to_string(record.inode);
  text += "\nchanged_ns=" + std::to_string(record.changed_ns) + "\n";
  return ended_text(std::move(text));
}

Result<PinRecord> parse_pin_record(std::string_view text) {
  TRY_ASSIGN(const std::string_view lines, believed_lines(text, kMaxPinRecordBytes));
  LineReader reader(lines);
  TRY_ASSIGN(const std::string_view format, reader.value("format"));
  if (format != kPinFormat) {
    return Error{ErrorCode::kUnsupported, "expected format 1, found another version", "format"};
  }
  PinRecord record;
  TRY_ASSIGN(const std::string_view object, reader.value("object"));
  Section section;
  if (auto named = parse_object_name(object, section); !named) return std::move(named).error();
  if (!is_kind(section.kind)) return damaged_text("object: expected <kind>-<digest>");
  record.object = object;
  TRY_ASSIGN(record.pid, reader.number("pid"));
  TRY_ASSIGN(record.host, reader.digest("host"));
  TRY_ASSIGN(record.device, reader.number("device"));
  TRY_ASSIGN(record.inode, reader.number("inode"));
  TRY_ASSIGN(record.changed_ns, reader.number("changed_ns"));
  if (record.pid < 1) return damaged_text("pid: expected at least 1");
  if (text != pin_record_text(record)) return damaged_text("expected every value in one spelling");
  return record;
}

Result<PinRecord> pin_record_of(const ObjectFile& file) {
  struct stat status {};
  if (::fstat(file.file.get(), &status) != 0) return system_error(file.path, "cannot be examined");
  const std::optional<Digest> host = this_host();
  if (!host) return Error{ErrorCode::kIo, "/proc/sys/kernel/random/boot_id: cannot be read", ""};
  constexpr int64_t kNanoseconds = 1'000'000'000;
  return PinRecord{file.section.object(),
                   ::getpid(),
                   *host,
                   static_cast<int64_t>(status.st_dev),
                   static_cast<int64_t>(status.st_ino),
                   status.st_ctim.tv_sec * kNanoseconds + status.st_ctim.tv_nsec};
}

FoundPinner find_pinner(const Store& store, const ObjectFile& file) {
  FoundPinner found{std::nullopt, "nobody pins it"};
  const auto wanted = pin_record_of(file);
  if (!wanted) return {std::nullopt, wanted.error().message};
  look_in(store.folders().use, *wanted, found);
  if (const auto folder = runtime_folder(); folder) look_in(*folder, *wanted, found);
  return found;
}

Result<Folder> folder_of_users(const Store& store) {
  const Folder& use = store.folders().use;
  if (use.check_writable()) return use.open_folder(".");
  const std::string dir = runtime_dir();
  if (dir.empty()) {
    return Error{ErrorCode::kIo,
                 use.path() +
                     ": cannot be written: expected a folder for files of running "
                     "processes in XDG_RUNTIME_DIR, found none",
                 ""};
  }
  TRY_ASSIGN(const Folder parent, Folder::open(dir));
  if (auto made = parent.make_folder("stoker"); !made) return std::move(made).error();
  return parent.open_folder("stoker");
}

Result<Folder> runtime_folder() {
  const std::string dir = runtime_dir();
  if (dir.empty()) return Error{ErrorCode::kNotFound, "XDG_RUNTIME_DIR is not set", ""};
  TRY_ASSIGN(const Folder parent, Folder::open(dir));
  return parent.open_folder("stoker");
}

PinMark::PinMark(Folder folder, std::string name, Descriptor lock)
    : folder_(std::move(folder)), name_(std::move(name)), lock_(std::move(lock)) {}

PinMark::~PinMark() {
  if (lock_.get() >= 0) (void)folder_.remove_file(name_);
}

Result<PinMark> PinMark::leave(Folder folder, const PinRecord& record) {
  const std::string text = pin_record_text(record);
  for (int i = 0; i < kMaxMarkTries; ++i) {
    TRY_ASSIGN(const std::string name, mark_name(record.object));
    TRY_ASSIGN(Descriptor file, folder.create_file(name));
    if (!try_lock(file.get()) || !is_still_at(folder.fd(), name, file.get())) {
      (void)folder.remove_file(name);
      continue;
    }
    // Until all of it is there, it is damaged text, which nobody believes.
    PinMark mark(std::move(folder), name, std::move(file));
    if (const int code = write_at(mark.lock_.get(), 0, bytes_of(text)); code != 0) {
      return system_error(mark.folder_.path_of(name), "cannot be written", code);
    }
    return mark;
  }
  return Error{ErrorCode::kIo,
               folder.path() + ": expected a file that stays, found it removed by others " +
                   std::to_string(kMaxMarkTries) + " times",
               ""};
}

void remove_left_pins(const Folder& use) {
  const auto names = use.names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPinPrefix)) continue;
    const Descriptor file(
        ::openat(use.fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0 || !try_lock(file.get())) continue;
    if (is_still_at(use.fd(), name, file.get())) (void)use.remove_file(name);
  }
}

}  // namespace stoker::snapshot
