// How the bytes of an object get into memory before they are used: all of them, by several threads,
// each chunk held against its digest while it is in a processor's cache.
//
// As a rule the file is mapped, and all processes that do so share one copy. Where it is not in the
// page cache and mapping it is much slower than storage can be read, it is read into memory of this
// process alone, in large pages. Or a pinner has a sealed copy. The bytes are the same.
#pragma once

#include <cstdint>
#include <string>

#include "snapshot/chunk_table.h"
#include "snapshot/object.h"
#include "snapshot/store.h"
#include "stoker/result.h"

namespace stoker::snapshot {

enum class AttachWay {
  kMapped,  ///< pages of the file
  kDirect,  ///< memory of this process, read past the page cache
  kSealed,  ///< a pinner's copy, which nobody can change (sealed.h)
};

/// "mapped", "direct", "sealed".
const char* name_of(AttachWay way);

enum class AttachChoice {
  kMeasured,  ///< mapped, if the file is cached or mapping reaches 70 % of direct reads
  kMapped,
  kDirect,
};

enum class AttachVerify {
  kFull,       ///< every chunk
  kInherited,  ///< the same, but where a pinner hands out a sealed copy, or has verified the same
               ///< file and holds it
  kLater,      ///< not now: who attaches has it done, or knows that it was
};

struct AttachOptions {
  int num_threads = 1;  ///< from storage at least 8 are used, for they mostly wait
  AttachChoice choice = AttachChoice::kMeasured;
  AttachVerify verify = AttachVerify::kFull;
  Progress progress;  ///< may be null
};

/// What it took. Seconds are of the clock on the wall; those of the pass over all bytes are shared
/// out between populate and verify as the threads' time was.
struct AttachReport {
  AttachWay way = AttachWay::kMapped;
  std::string why;             ///< of that way, in one line
  double cached_fraction = 1;  ///< of the chunks looked at, in the page cache before
  /// As measured over 64 MiB each, verification included; 0: not measured.
  double mapped_bytes_per_s = 0;
  double direct_bytes_per_s = 0;
  bool is_verified = false;    ///< by this call
  int64_t inherited_from = 0;  ///< process id of the pinner that has verified it; 0: none
  std::string not_inherited;   ///< why there is none, where one was asked for
  int64_t bytes = 0;
  double map_s = 0;       ///< opening, table, address, and what was measured
  double populate_s = 0;  ///< until bytes were there
  double verify_s = 0;    ///< digests
};

struct Attached {
  Object object;
  AttachReport report;
};

/// Has all bytes of a section in memory, verified. The number of threads and the way change nothing
/// but time. Threads belong to nodes as those of WorkerPool do. Errors: those of ObjectFile::open;
/// kCorruptData with object, chunk and offset for the first chunk that is not good, and for a file
/// that was shortened meanwhile; kResourceExhausted where memory lacks; kUnsupported where direct
/// reads were asked for and the file system has none; kIo. What a mapping guard is for
/// (stoker/process.h) still is.
Result<Attached> attach(const Store& store, const Section& section, const AttachOptions& options);
/// The same of an open file and its mapping; kInherited is kFull.
Result<Attached> attach(ObjectFile file, ObjectMapping mapping, const AttachOptions& options);

}  // namespace stoker::snapshot
