// A process that keeps objects in memory, so that engines that start again have them at the speed
// of memory whatever happens to the page cache, and need not verify them again: pages of the files,
// or sealed copies.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "snapshot/attach.h"
#include "snapshot/handover.h"
#include "snapshot/pin_record.h"
#include "snapshot/store.h"

namespace stoker::snapshot {

/// What is pinned, for as long as this lives. Movable.
class Pinned {
 public:
  const std::vector<Attached>& objects() const { return objects_; }
  int64_t bytes() const;

  /// Waits until `stop_fd` can be read: termination_signals(), or an end of a pipe. Meanwhile it
  /// hands out what is sealed. Error: kIo.
  Result<void> wait(int stop_fd) const;

 private:
  friend Result<Pinned> pin_objects(const Store& store, const std::vector<Section>& sections,
                                    int num_threads, const Progress& progress);
  friend Result<Pinned> pin_sealed(const Store& store, const std::vector<Section>& sections,
                                   int num_threads, const Progress& progress);

  std::vector<Attached> objects_;
  std::vector<Descriptor> sealed_;       // of sealed copies, as many as sockets
  std::vector<HandoverSocket> sockets_;  // these and marks go first
  std::vector<PinMark> marks_;
};

/// Maps the sections, locks them in memory (mlock) and verifies each chunk as it comes; then leaves
/// word in use/ (pin_record.h). `progress` tells of the bytes of all of them. Errors: those of
/// attach(); kResourceExhausted, with both numbers, where this process may not lock so much memory
/// (and how to allow it) or memory lacks; kCorruptData if a file changes meanwhile; those of
/// folder_of_users().
Result<Pinned> pin_objects(const Store& store, const std::vector<Section>& sections,
                           int num_threads, const Progress& progress = {});

/// Copies the sections into sealed memory and verifies the copies (sealed.h); who attaches gets
/// them at a socket in use/ as long as wait() runs (handover.h). Locked too, as far as this process
/// may; what is not can be swapped out, and report.why says so. Needs twice the memory while it
/// copies, of which the page cache's part can be taken back. Errors: those of seal_object();
/// kResourceExhausted, with both numbers, where memory lacks; those of folder_of_users().
Result<Pinned> pin_sealed(const Store& store, const std::vector<Section>& sections, int num_threads,
                          const Progress& progress = {});

/// From now on SIGINT and SIGTERM end nothing in this thread and those that it starts, but can be
/// read from what is returned. Error: kIo.
Result<Descriptor> termination_signals();

}  // namespace stoker::snapshot
