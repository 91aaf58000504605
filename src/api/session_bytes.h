// A kept conversation as bytes: its messages as JSON, then the saved prefix as it is.
// docs/formats.md has the layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "stoker/result.h"
#include "stoker/session.h"

namespace stoker {

/// What a session says of itself.
struct SessionText {
  Session session;
  std::string model;         ///< name, for people
  std::string model_digest;  ///< 32 hexadecimal digits
  std::string numeric_mode;
  int64_t num_tokens = 0;  ///< of its prefix
};

/// JSON of one object.
std::string session_json(const SessionText& text);

/// Reads what session_json wrote; unknown members are refused. Error: kCorruptData.
Result<SessionText> parse_session_json(std::string_view json);

/// Where the parts of a session lie.
struct SessionLayout {
  int64_t text_bytes = 0;
  int64_t prefix_bytes = 0;  ///< 0: none

  static constexpr int64_t kHeadBytes = 32;
  static constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

  int64_t text_offset() const { return kHeadBytes; }
  int64_t prefix_offset() const { return (kHeadBytes + text_bytes + 63) / 64 * 64; }
  int64_t bytes() const { return prefix_offset() + prefix_bytes; }

  /// The head of the object.
  std::string head() const;
  /// From at least its head; `bytes`: of the whole object. Errors: kCorruptData, kUnsupported for
  /// another version.
  static Result<SessionLayout> read(Bytes head, int64_t bytes);
};

}  // namespace stoker
