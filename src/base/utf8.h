// UTF-8: validation, repair and the two conversions that the rest needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

/// The code point that starts at text[at], and its length; ill-formed: U+FFFD and the length of the
/// maximal ill-formed subpart (at least 1), as WHATWG and Rust have it.
struct CodePoint {
  char32_t value = 0;
  size_t length = 0;
  bool valid = false;
};

/// at < text.size().
CodePoint decode_utf8(std::string_view text, size_t at);

/// Appends a code point (a scalar value).
void append_utf8(std::string& out, char32_t code_point);

bool is_valid_utf8(std::string_view text);

/// The text with each maximal ill-formed subpart replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

/// Number of bytes at the end of `text` that are a proper prefix of a well-formed sequence: 0 to 3.
size_t incomplete_utf8_tail(std::string_view text);

}  // namespace stoker
