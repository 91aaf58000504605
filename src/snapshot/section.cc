#include "snapshot/section.h"

#include <utility>

#include "base/try.h"
#include "snapshot/text_lines.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kFormat = "1";

// The lines before the last; its digest was right.
Result<Section> parse_body(LineReader lines) {
  TRY_ASSIGN(const std::string_view format, lines.value("format"));
  if (format != kFormat) {
    return Error{ErrorCode::kUnsupported, "expected format 1, found another version", "format"};
  }
  Section section;
  TRY_ASSIGN(const std::string_view object, lines.value("object"));
  if (auto read = parse_object_name(object, section); !read) return std::move(read).error();
  TRY_ASSIGN(section.bytes, lines.number("bytes"));
  TRY_ASSIGN(const int64_t chunk_bytes, lines.number("chunk_bytes"));
  TRY_ASSIGN(section.table_digest, lines.digest("table"));
  TRY_ASSIGN(section.key, lines.digest("key"));
  if (auto checked = check_section(section); !checked) return damaged_text(checked.error().message);
  if (chunk_bytes != kChunkBytes) return damaged_text("chunk_bytes: expected 4194304");
  return section;
}

}  // namespace

bool is_kind(std::string_view kind) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  return !kind.empty() && kind.size() <= 64 &&
         kind.find_first_not_of(kLetters) == std::string_view::npos;
}

std::string Section::object() const {
  return kind + "-" + digest.hex();
}

Result<void> check_section(const Section& section) {
  if (!is_kind(section.kind)) {
    return Error{ErrorCode::kInvalidArgument, "kind: expected 1 to 64 of a-z, 0-9, '.', '_', '-'",
                 "kind"};
  }
  if (section.bytes < 1 || section.bytes > kMaxObjectBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "bytes: expected 1 to " + std::to_string(kMaxObjectBytes) + ", found " +
                     std::to_string(section.bytes),
                 "bytes"};
  }
  return {};
}

Digest object_digest(Bytes table, int64_t bytes) {
  return Hasher().add(table).add_number(bytes).digest();
}

std::string key_file_text(const Section& section) {
  std::string text = "format=" + std::string(kFormat);
  text += "\nobject=" + section.object();
  text += "\nbytes=" + std::to_string(section.bytes);
  text += "\nchunk_bytes=" + std::to_string(kChunkBytes);
  text += "\ntable=" + section.table_digest.hex();
  text += "\nkey=" + section.key.hex() + "\n";
  return ended_text(std::move(text));
}

Result<Section> parse_key_file(std::string_view text) {
  TRY_ASSIGN(const std::string_view body, believed_lines(text, kMaxKeyFileBytes));
  TRY_ASSIGN(Section section, parse_body(LineReader(body)));
  // One text for each section: no other spelling of a number, and no lines more.
  if (key_file_text(section) != text) return damaged_text("expected the canonical form");
  return section;
}

}  // namespace stoker::snapshot
