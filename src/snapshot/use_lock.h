// use/: who uses what of a store. A lock is freed by the system when its process ends, however it
// ends.
#pragma once

#include <string>

#include "base/folder.h"
#include "snapshot/work_folder.h"

namespace stoker::snapshot {

/// Whether others may hold the same lock.
enum class Sharing { kShared, kAlone };

/// A flock on a file of the folder use/. Movable; given back when it goes. The file stays.
class UseLock {
 public:
  /// Takes the lock if it is free. Errors: kOverloaded where others hold it in a way that excludes
  /// this one; as system_error.
  static Result<UseLock> try_take(const Folder& use, const std::string& name, Sharing sharing);

  /// Waits for it, and tells `wait`; a null one does not wait. Errors: kCancelled where `wait`
  /// returned false; those of try_take.
  static Result<UseLock> take(const Folder& use, const std::string& name, Sharing sharing,
                              const WaitSink& wait);

  /// Removes the file of a lock that is held alone: whoever waits for it makes a new one.
  void remove_file() const;

 private:
  UseLock(int use_fd, std::string name, Descriptor lock)
      : use_fd_(use_fd), name_(std::move(name)), lock_(std::move(lock)) {}

  int use_fd_;  // of a Folder that outlives this
  std::string name_;
  Descriptor lock_;
};

}  // namespace stoker::snapshot
