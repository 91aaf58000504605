// One pass over the chunks of an object by several threads: each is brought into memory and held
// against its digest while it is in a processor's cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "snapshot/chunk_table.h"
#include "snapshot/object.h"

namespace stoker::snapshot {

/// Has a chunk in memory; returns 0 or an errno. Called by several threads; must not throw.
using Bring = std::function<int(ChunkRange range)>;

/// Used by one thread. What failed in one run counts in the next ones.
class ChunkLoader {
 public:
  /// The file outlives it. `verify`: chunks are held against its table.
  ChunkLoader(const ObjectFile& file, bool verify)
      : file_(file), verify_(verify), first_failed_(file.section.num_chunks()) {}

  /// Where the bytes of the object are once they were brought. Before run().
  void set_memory(Bytes memory) { memory_ = memory; }

  /// Brings the chunks of an ascending list; those behind one that failed are left out. Returns
  /// seconds.
  double run(const std::vector<int64_t>& chunks, int num_threads, const Bring& bring,
             const Progress& progress);

  bool has_failed() const { return first_failed_ < file_.section.num_chunks(); }
  /// Of the first chunk that failed, whatever the number of threads. After has_failed().
  Error error() const;
  /// The part of the threads' time that they took to bring; the rest verified.
  double bring_share() const;

 private:
  void load(int64_t chunk_idx, const Bring& bring);
  void fail(int64_t chunk_idx, int code);

  const ObjectFile& file_;
  const bool verify_;
  Bytes memory_;
  std::atomic<int64_t> bring_ns_{0};
  std::atomic<int64_t> verify_ns_{0};
  std::mutex mutex_;  // guards code_, and changes of the next
  std::atomic<int64_t> first_failed_;
  int code_ = 0;
};

}  // namespace stoker::snapshot
