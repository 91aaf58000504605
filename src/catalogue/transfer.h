// Snapshots between a store and a catalogue: what the other side has not, chunk by chunk, each held
// against its digest as it comes; and on from there after an end of any kind.
#pragma once

#include <string>
#include <vector>

#include "catalogue/index.h"
#include "catalogue/source.h"
#include "snapshot/manifest.h"
#include "snapshot/snapshots.h"

namespace stoker::catalogue {

/// What a catalogue says of a snapshot.
struct Listed {
  snapshot::Manifest manifest;
  std::string signature;  ///< "" : none
};

/// Errors of both: those of Source::open; kCorruptData, kUnsupported for another version.
Result<std::vector<IndexEntry>> read_index(Source& source);
/// Manifest and signature of a snapshot, whose id it has.
Result<Listed> read_listed(Source& source, const snapshot::Digest& id);

struct TransferSinks {
  snapshot::Progress progress;  ///< of the bytes that were lacking; may be null
  snapshot::WaitSink wait;      ///< while another process brings the same object; may be null
};

/// Of a snapshot's objects, the bytes that a store lacks.
int64_t missing_bytes(const snapshot::Store& store, const snapshot::Manifest& manifest);

/// Brings a snapshot that may travel into a store: objects that are not there, then the manifest. A
/// connection that is lost is made again as long as bytes come. What arrived stays for the next
/// time. The caller holds the lock on changes. Errors: those of Source::open, Arrival,
/// check_can_travel and Snapshots::publish.
Result<void> fetch_snapshot(const snapshot::Store& store, Source& source, const Listed& listed,
                            const TransferSinks& sinks);

/// Makes a folder that others may read the folder of a catalogue, where nothing is. Errors: as
/// system_error.
Result<void> make_catalogue(const std::string& dir);

/// Lets everybody read the files of a snapshot, and writes the index of a catalogue anew. One at a
/// time; others wait. Errors: as system_error, kInvalidArgument beyond kMaxIndexEntries.
Result<void> list_snapshot(const snapshot::Store& catalogue, const snapshot::Manifest& manifest);

}  // namespace stoker::catalogue
