// The byte-level alphabet in which tokenizer.json spells its vocabulary: one printable character
// for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// The bytes that a vocabulary string spells, or none where a character of it is outside the
/// alphabet. Bytes 21-7E, A1-AC and AE-FF are their own code points; the other 68, in order, are
/// U+0100 and up.
std::optional<std::string> bytes_of_symbols(std::string_view symbols);

/// The vocabulary string that spells these bytes.
std::string symbols_of_bytes(std::string_view bytes);

}  // namespace stoker
