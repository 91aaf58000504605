// The index of a catalogue: which snapshots it has (docs/formats.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "snapshot/digest.h"
#include "stoker/result.h"

namespace stoker::catalogue {

constexpr size_t kMaxIndexBytes = size_t{4} << 20;
constexpr size_t kMaxIndexEntries = 10'000;
/// Its file, beside objects/ and snapshots/.
constexpr const char* kIndexName = "index";

struct IndexEntry {
  snapshot::Digest id;
  std::string model_name;  ///< as in its manifest

  bool operator==(const IndexEntry&) const = default;
};

/// The text of entries with ids that ascend.
std::string index_text(const std::vector<IndexEntry>& entries);

/// Reads what index_text wrote, byte for byte; nothing is believed before the last line matches the
/// rest. Errors: kCorruptData, kUnsupported for another version of the format.
Result<std::vector<IndexEntry>> parse_index(std::string_view text);

}  // namespace stoker::catalogue
