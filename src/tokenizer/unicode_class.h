// Classes of characters: what the pre-tokenizer's patterns can tell apart. Unicode 16.0.0, whatever
// libraries the machine has: another version gives other ids for thousands of code points.
#pragma once

#include <cstdint>
#include <span>

namespace stoker {

/// General categories by their first letter, and the property White_Space, of which no member is in
/// one of them.
enum class CharClass : uint8_t {
  kOther,
  kLetter,       // L
  kMark,         // M
  kNumber,       // N
  kPunctuation,  // P
  kSymbol,       // S
  kWhiteSpace,
};

/// The class of a code point, 0 .. 0x10FFFF. Safe from any thread.
CharClass char_class(char32_t code_point);

/// For char_class: ascending words, the first code point of a run of one class times 8 plus the
/// class. The first run starts at 0. Made by tools/make_unicode_table.py.
std::span<const uint32_t> unicode_runs();

}  // namespace stoker
