// use/pin-<object>.<8 digits>: what a process leaves in words that keeps an object in memory, and
// has verified it. It holds an exclusive flock on the file for as long as it does, so that a file
// with a free lock is one of a process that ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "snapshot/object.h"
#include "snapshot/store.h"

namespace stoker::snapshot {

/// A longer one is none of ours.
constexpr size_t kMaxPinRecordBytes = 1024;

/// The very file that was verified. A value.
struct PinRecord {
  std::string object;  ///< "<kind>-<digest>"
  int64_t pid = 0;     ///< of the pinner, for messages
  Digest host;         ///< since when it runs: the boot id of the system
  int64_t device = 0;  ///< of the file, as its inode
  int64_t inode = 0;
  int64_t changed_ns = 0;  ///< when its status last changed, which every write does

  bool operator==(const PinRecord&) const = default;
};

/// The content of the file, and what reads it, byte for byte. Errors: kCorruptData; kUnsupported
/// for another version.
std::string pin_record_text(const PinRecord& record);
Result<PinRecord> parse_pin_record(std::string_view text);

/// What this process would write of an open object. Error: kIo.
Result<PinRecord> pin_record_of(const ObjectFile& file);

/// What find_pinner() knows.
struct FoundPinner {
  std::optional<PinRecord> record;  ///< of a pinner that runs; none: verify
  std::string reason;               ///< why there is none
};
/// Looks for a process of this system that keeps the very file in memory which is open here, as
/// it was verified there. It must have left its word in a file of this user or root.
FoundPinner find_pinner(const Store& store, const ObjectFile& file);

/// The folder for files of processes that use the store: use/, or stoker/ in $XDG_RUNTIME_DIR where
/// the store cannot be written. Errors: as system_error; kCorruptData if others can write in it.
Result<Folder> folder_of_users(const Store& store);
/// stoker/ in $XDG_RUNTIME_DIR, if it is there. Errors: the same, and kNotFound.
Result<Folder> runtime_folder();

/// A record in its place, with its lock. Movable; the file goes when it does.
class PinMark {
 public:
  /// Errors: as system_error.
  static Result<PinMark> leave(Folder folder, const PinRecord& record);

  PinMark(PinMark&&) noexcept = default;
  PinMark& operator=(PinMark&&) = delete;
  ~PinMark();

 private:
  PinMark(Folder folder, std::string name, Descriptor lock);

  Folder folder_;
  std::string name_;
  Descriptor lock_;
};

/// Removes the files of pinners that ended.
void remove_left_pins(const Folder& use);

}  // namespace stoker::snapshot
