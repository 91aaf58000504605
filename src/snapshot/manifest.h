// A snapshot as a text: which objects make up a warm engine, of which model, and what host and
// engine they fit. docs/formats.md has the lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snapshot/section.h"

namespace stoker::snapshot {

constexpr size_t kMaxManifestBytes = size_t{1} << 20;
constexpr size_t kMaxSections = 256;
constexpr size_t kMaxFlags = 64;
/// The kind of the section that holds what users wrote: it never leaves the store.
inline constexpr std::string_view kPrivateKind = "prefix";
/// Of names, processors and other texts for people.
constexpr size_t kMaxManifestValueBytes = 256;

/// SHA-256 of what a section holds: of the SHA-256 digests of its chunks, one after the other.
using Sha256 = std::array<uint8_t, 32>;

/// A flag that changes numbers or shapes, such as {"max_model_len", "4096"}.
struct ManifestFlag {
  std::string name;  ///< 1 to 64 of a-z, 0-9 and '_'
  std::string value;

  bool operator==(const ManifestFlag&) const = default;
};

/// A plain value. Texts are UTF-8 without control characters, at most kMaxManifestValueBytes.
struct Manifest {
  std::string created;  ///< "2026-01-31T12:00:00Z"
  std::string tool;     ///< "stoker 1.0.0"
  std::string engine_build;
  int64_t engine_layout = 0;   ///< version of the packed weights
  std::string engine_numeric;  ///< the name of what it computes (docs/numerics.md)
  std::string model_name;
  Digest model_fingerprint;
  Digest model_digest;              ///< as ModelInfo::digest
  std::vector<ManifestFlag> flags;  ///< by name, ascending
  std::string host_isa;             ///< what a processor must have, "x86-avx2"
  std::string host_cpu;             ///< where it was made
  int64_t host_cores = 1;
  int64_t host_numa = 1;
  int64_t host_page = 4096;
  int64_t ranks = 1;
  std::vector<Section> sections;  ///< each kind once, by kind, ascending
  std::vector<Sha256> sha256;     ///< one for each section, or none

  /// The section of this kind; null if there is none. Borrows.
  const Section* find(std::string_view kind) const;
  /// Of all sections.
  int64_t bytes() const;
  /// The digest of all that it says but `created` and `tool`: the same content has the same id.
  Digest id() const;

  bool operator==(const Manifest&) const = default;
};

/// Whether counts, texts and order are within their limits. Error: kInvalidArgument with the field.
Result<void> check_manifest(const Manifest& manifest);

/// Whether all that it names may go to another store. Error: kUnsupported for a private section.
Result<void> check_can_travel(const Manifest& manifest);
/// Of a section alone.
Result<void> check_can_travel(const Section& section);

/// The text of a manifest that check_manifest takes.
std::string manifest_text(const Manifest& manifest);

/// Reads what manifest_text wrote, byte for byte; nothing is believed before the last line matches
/// the rest. Errors: kCorruptData, kUnsupported for another version of the format.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace stoker::snapshot
