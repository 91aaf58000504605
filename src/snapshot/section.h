// What is known of an object before its bytes are looked at, and the small text by which an object
// is found under its key. docs/formats.md has the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "snapshot/digest.h"
#include "stoker/result.h"

namespace stoker::snapshot {

/// An object has one digest for each 4 MiB; the last chunk may be shorter.
constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int64_t kMaxObjectBytes = int64_t{1} << 48;
/// A longer key file is none of ours.
constexpr size_t kMaxKeyFileBytes = 1024;

/// Whether `kind` can be the kind of an object: 1 to 64 of a-z, 0-9, '.', '_' and '-'.
bool is_kind(std::string_view kind);

/// Names an object and says what it must be. A plain value, from a key file or a manifest.
struct Section {
  std::string kind;     ///< what it holds, such as "weights.0"; see is_kind
  int64_t bytes = 0;    ///< of the object, 1 .. kMaxObjectBytes
  Digest digest;        ///< of the object: see object_digest
  Digest table_digest;  ///< of its chunk table
  Digest key;           ///< of all that the content was made from

  /// The name of its file, "<kind>-<digest>".
  std::string object() const;
  int64_t num_chunks() const { return (bytes + kChunkBytes - 1) / kChunkBytes; }

  bool operator==(const Section&) const = default;
};

/// Whether kind and size are within their limits. Error: kInvalidArgument.
Result<void> check_section(const Section& section);

/// The digest of an object: of its chunk table, then its size as a number.
Digest object_digest(Bytes table, int64_t bytes);

/// The content of a key file.
std::string key_file_text(const Section& section);

/// Reads what key_file_text wrote, byte for byte; nothing is believed before the last line matches
/// the rest. Errors: kCorruptData, kUnsupported for another version of the format.
Result<Section> parse_key_file(std::string_view text);

}  // namespace stoker::snapshot
