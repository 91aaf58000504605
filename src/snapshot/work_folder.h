// tmp/: work that is not done yet. Whoever works holds a lock, and the system frees it when a
// process ends, however it ends: what is there with a free lock is left over.
#pragma once

#include <functional>
#include <string>

#include "base/folder.h"

namespace stoker::snapshot {

/// tmp/<random>/ with its locked file `lock`. Movable; removed with all its files when it goes.
class WorkFolder {
 public:
  /// Errors: as system_error.
  static Result<WorkFolder> create(const Folder& tmp);

  WorkFolder(WorkFolder&&) noexcept = default;
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder();

  const Folder& folder() const { return folder_; }

 private:
  WorkFolder(int tmp_fd, std::string name, Folder folder, Descriptor lock);

  int tmp_fd_;  // of a Folder that outlives this
  std::string name_;
  Folder folder_;
  Descriptor lock_;
};

/// Told every 200 ms why one waits, in one line, from the thread that waits; false gives up.
using WaitSink = std::function<bool(const std::string& why)>;

/// Holds tmp/<kind>-<key>.lock: among those that ask for it, one at a time makes an object.
/// Movable; given back when it goes, or when its process ends. It excludes other threads too.
class KeyLock {
 public:
  /// `name` is "<kind>-<key>". Errors: as system_error, kCancelled.
  static Result<KeyLock> take(const Folder& tmp, const std::string& name, const WaitSink& wait);

  KeyLock(KeyLock&&) noexcept = default;
  KeyLock& operator=(KeyLock&&) = delete;
  ~KeyLock();

 private:
  KeyLock(int tmp_fd, std::string file_name, Descriptor lock);

  int tmp_fd_;  // of a Folder that outlives this
  std::string file_name_;
  Descriptor lock_;
};

/// Removes the folders and locks that nobody holds; what the store never makes stays. Returns how
/// many folders are gone.
int remove_leftovers(const Folder& tmp);

}  // namespace stoker::snapshot
