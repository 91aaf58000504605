#include "snapshot/text_lines.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kEnd = "end=";
constexpr size_t kEndBytes = kEnd.size() + Digest::kHexDigits + 1;  // with the line feed

std::string end_line(std::string_view body) {
  return std::string(kEnd) + digest_of(body).hex() + "\n";
}

}  // namespace

Error damaged_text(const std::string& what) {
  return {ErrorCode::kCorruptData, what, ""};
}

std::string ended_text(std::string body) {
  const std::string end = end_line(body);
  return std::move(body) + end;
}

Result<std::string_view> believed_lines(std::string_view text, size_t max_bytes) {
  if (text.size() < kEndBytes || text.size() > max_bytes) {
    return damaged_text("expected " + std::to_string(kEndBytes) + " to " +
                        std::to_string(max_bytes) + " bytes, found " + std::to_string(text.size()));
  }
  const std::string_view body = text.substr(0, text.size() - kEndBytes);
  if (text.substr(body.size()) != end_line(body)) {
    return damaged_text("the line end= does not match the lines before it: damaged or cut");
  }
  return body;
}

Result<std::string_view> LineReader::next_name() const {
  const std::string_view line = rest_.substr(0, rest_.find('\n'));
  const size_t end = line.find('=');
  if (end == std::string_view::npos) return damaged_text("expected a line name=value");
  return line.substr(0, end);
}

Result<std::string_view> LineReader::value(std::string_view name) {
  const size_t line_bytes = rest_.find('\n');
  const std::string_view line = rest_.substr(0, line_bytes);
  if (line_bytes == std::string_view::npos || !line.starts_with(name) ||
      line.substr(name.size(), 1) != "=") {
    return damaged_text("expected a line " + std::string(name) + "=...");
  }
  rest_.remove_prefix(line_bytes + 1);
  return line.substr(name.size() + 1);
}

Result<int64_t> LineReader::number(std::string_view name) {
  TRY_ASSIGN(const std::string_view text, value(name));
  return parse_number(text, name);
}

Result<Digest> LineReader::digest(std::string_view name) {
  TRY_ASSIGN(const std::string_view text, value(name));
  const std::optional<Digest> digest = Digest::from_hex(text);
  if (!digest) return damaged_text(std::string(name) + ": expected 32 hexadecimal digits");
  return *digest;
}

Result<int64_t> parse_number(std::string_view text, std::string_view name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return damaged_text(std::string(name) + ": expected a number");
  }
  return number;
}

Result<void> parse_object_name(std::string_view text, Section& section) {
  const size_t dash = text.size() - std::min(text.size(), Digest::kHexDigits + 1);
  const std::optional<Digest> digest =
      Digest::from_hex(text.substr(std::min(text.size(), dash + 1)));
  if (!digest || text[dash] != '-') return damaged_text("object: expected <kind>-<digest>");
  section.kind = text.substr(0, dash);
  section.digest = *digest;
  return {};
}

}  // namespace stoker::snapshot
