#include "snapshot/section.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kFormat = "1";
constexpr std::string_view kEnd = "end=";
constexpr size_t kEndBytes = kEnd.size() + Digest::kHexDigits + 1;  // with the line feed

Error damaged(const std::string& what) {
  return {ErrorCode::kCorruptData, what, ""};
}

// The value of the next line "name=value"; takes the line off `rest`.
Result<std::string_view> next_value(std::string_view& rest, std::string_view name) {
  const size_t line_bytes = rest.find('\n');
  const std::string_view line = rest.substr(0, line_bytes);
  if (line_bytes == std::string_view::npos || !line.starts_with(name) ||
      line.substr(name.size(), 1) != "=") {
    return damaged("expected a line " + std::string(name) + "=...");
  }
  rest.remove_prefix(line_bytes + 1);
  return line.substr(name.size() + 1);
}

Result<int64_t> next_number(std::string_view& rest, std::string_view name) {
  TRY_ASSIGN(const std::string_view text, next_value(rest, name));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return damaged(std::string(name) + ": expected a number");
  }
  return number;
}

Result<Digest> next_digest(std::string_view& rest, std::string_view name) {
  TRY_ASSIGN(const std::string_view text, next_value(rest, name));
  const std::optional<Digest> digest = Digest::from_hex(text);
  if (!digest) return damaged(std::string(name) + ": expected 32 hexadecimal digits");
  return *digest;
}

// The line object=<kind>-<digest>.
Result<void> read_object(std::string_view& rest, Section& section) {
  TRY_ASSIGN(const std::string_view name, next_value(rest, "object"));
  const size_t dash = name.size() - std::min(name.size(), Digest::kHexDigits + 1);
  const std::optional<Digest> digest =
      Digest::from_hex(name.substr(std::min(name.size(), dash + 1)));
  if (!digest || name[dash] != '-') return damaged("object: expected <kind>-<digest>");
  section.kind = name.substr(0, dash);
  section.digest = *digest;
  return {};
}

// The lines before the last; its digest was right.
Result<Section> parse_body(std::string_view rest) {
  TRY_ASSIGN(const std::string_view format, next_value(rest, "format"));
  if (format != kFormat) {
    return Error{ErrorCode::kUnsupported, "expected format 1, found another version", "format"};
  }
  Section section;
  if (auto read = read_object(rest, section); !read) return std::move(read).error();
  TRY_ASSIGN(section.bytes, next_number(rest, "bytes"));
  TRY_ASSIGN(const int64_t chunk_bytes, next_number(rest, "chunk_bytes"));
  TRY_ASSIGN(section.table_digest, next_digest(rest, "table"));
  TRY_ASSIGN(section.key, next_digest(rest, "key"));
  if (auto checked = check_section(section); !checked) return damaged(checked.error().message);
  if (chunk_bytes != kChunkBytes) return damaged("chunk_bytes: expected 4194304");
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
  return text + std::string(kEnd) + digest_of(text).hex() + "\n";
}

Result<Section> parse_key_file(std::string_view text) {
  if (text.size() < kEndBytes || text.size() > kMaxKeyFileBytes) {
    return damaged("expected " + std::to_string(kEndBytes) + " to " +
                   std::to_string(kMaxKeyFileBytes) + " bytes, found " +
                   std::to_string(text.size()));
  }
  const std::string_view body = text.substr(0, text.size() - kEndBytes);
  if (text.substr(body.size()) != std::string(kEnd) + digest_of(body).hex() + "\n") {
    return damaged("the line end= does not match the lines before it: damaged or cut");
  }
  TRY_ASSIGN(Section section, parse_body(body));
  // One text for each section: no other spelling of a number, and no lines more.
  if (key_file_text(section) != text) return damaged("expected the canonical form");
  return section;
}

}  // namespace stoker::snapshot
