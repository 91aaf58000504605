// Texts of lines "name=value" that end with the digest of all before: key files and manifests.
// Nothing of a text is believed before its digest matches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "snapshot/section.h"

namespace stoker::snapshot {

/// The kCorruptData of a text that is not what it should be.
Error damaged_text(const std::string& what);

/// Adds the last line, end=<digest of all before>.
std::string ended_text(std::string body);

/// The lines before the last one of a text of at most max_bytes. Error: kCorruptData, also where
/// the digest does not match.
Result<std::string_view> believed_lines(std::string_view text, size_t max_bytes);

/// Takes lines off a text, one after the other. Borrows the text.
class LineReader {
 public:
  explicit LineReader(std::string_view lines) : rest_(lines) {}

  bool is_at_end() const { return rest_.empty(); }
  /// Whether the next line begins with `start`.
  bool next_starts_with(std::string_view start) const { return rest_.starts_with(start); }
  /// The name of the next line, up to its "=". Error: kCorruptData.
  Result<std::string_view> next_name() const;

  /// The value of the next line, which is "name=value". Errors of all: kCorruptData.
  Result<std::string_view> value(std::string_view name);
  Result<int64_t> number(std::string_view name);
  Result<Digest> digest(std::string_view name);

 private:
  std::string_view rest_;
};

/// A number as it is written, in decimal digits. Error: kCorruptData with `name`.
Result<int64_t> parse_number(std::string_view text, std::string_view name);

/// Sets kind and digest from the name of an object, "<kind>-<digest>". Error: kCorruptData.
Result<void> parse_object_name(std::string_view text, Section& section);

}  // namespace stoker::snapshot
