#include "catalogue/index.h"

#include <algorithm>
#include <optional>

#include "base/try.h"
#include "base/utf8.h"
#include "snapshot/manifest.h"
#include "snapshot/text_lines.h"

namespace stoker::catalogue {
namespace {

using snapshot::damaged_text;
using snapshot::Digest;

constexpr std::string_view kIndexFormat = "1";

Result<IndexEntry> parse_entry(std::string_view line) {
  const std::optional<Digest> id = Digest::from_hex(line.substr(0, Digest::kHexDigits));
  if (!id || line.substr(Digest::kHexDigits, 1) != " ")
    return damaged_text("snapshot: expected an id, a blank and a name");
  const std::string_view name = line.substr(Digest::kHexDigits + 1);
  const bool has_controls = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.size() > snapshot::kMaxManifestValueBytes || has_controls || !is_valid_utf8(name))
    return damaged_text("snapshot: expected a name of at most 256 bytes of UTF-8");
  return IndexEntry{*id, std::string(name)};
}

}  // namespace

std::string index_text(const std::vector<IndexEntry>& entries) {
  std::string text = "format=" + std::string(kIndexFormat) + "\n";
  for (const IndexEntry& entry : entries)
    text += "snapshot=" + entry.id.hex() + " " + entry.model_name + "\n";
  return snapshot::ended_text(std::move(text));
}

Result<std::vector<IndexEntry>> parse_index(std::string_view text) {
  TRY_ASSIGN(const std::string_view body, snapshot::believed_lines(text, kMaxIndexBytes));
  snapshot::LineReader lines(body);
  TRY_ASSIGN(const std::string_view format, lines.value("format"));
  if (format != kIndexFormat) {
    return Error{ErrorCode::kUnsupported, "expected format 1, found another version", "format"};
  }
  std::vector<IndexEntry> entries;
  while (!lines.is_at_end()) {
    if (entries.size() == kMaxIndexEntries)
      return damaged_text("snapshot: expected at most " + std::to_string(kMaxIndexEntries));
    TRY_ASSIGN(const std::string_view line, lines.value("snapshot"));
    TRY_ASSIGN(IndexEntry entry, parse_entry(line));
    if (!entries.empty() && entry.id.bytes <= entries.back().id.bytes)
      return damaged_text("snapshot: expected ids that ascend");
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace stoker::catalogue
