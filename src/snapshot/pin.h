// A process that keeps objects in memory, so that engines that start again have them at the speed
// of memory whatever happens to the page cache, and need not verify them again.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "snapshot/attach.h"
#include "snapshot/pin_record.h"
#include "snapshot/store.h"

namespace stoker::snapshot {

/// What is pinned, for as long as this lives. Movable.
class Pinned {
 public:
  const std::vector<Attached>& objects() const { return objects_; }
  int64_t bytes() const;

  /// Waits until `stop_fd` can be read: termination_signals(), or an end of a pipe. Error: kIo.
  Result<void> wait(int stop_fd) const;

 private:
  friend Result<Pinned> pin_objects(const Store& store, const std::vector<Section>& sections,
                                    int num_threads, const Progress& progress);

  std::vector<Attached> objects_;
  std::vector<PinMark> marks_;  // go first
};

/// Maps the sections, locks them in memory (mlock) and verifies each chunk as it comes; then leaves
/// word in use/ (pin_record.h). `progress` tells of the bytes of all of them. Errors: those of
/// attach(); kResourceExhausted, with both numbers, where this process may not lock so much memory
/// (and how to allow it) or memory lacks; kCorruptData if a file changes meanwhile; those of
/// folder_of_users().
Result<Pinned> pin_objects(const Store& store, const std::vector<Section>& sections,
                           int num_threads, const Progress& progress = {});

/// From now on SIGINT and SIGTERM end nothing in this thread and those that it starts, but can be
/// read from what is returned. Error: kIo.
Result<Descriptor> termination_signals();

}  // namespace stoker::snapshot
