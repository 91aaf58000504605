// The patterns, each applied to what the one before left, matches and gaps alike:
//
//   numbers  \p{N}{1,3}
//   CJK      [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+
//   words    [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+      an ASCII sign with ASCII letters
//            | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+               letters, with what stands before
//            them | \x20?[\p{P}\p{S}]+[\r\n]*                          signs | \s*[\r\n]+ |
//            \s+(?!\S) | \s+                       white space
//
// A piece's end is a text's end to the pattern after it. Every match is a piece, every gap between
// matches too.
#include "tokenizer/pretokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/unicode_class.h"

namespace stoker {
namespace {

// What the patterns ask of a character.
using Traits = uint16_t;
constexpr Traits kWord = 1 << 0;         // \p{L}, \p{M}
constexpr Traits kLetter = 1 << 1;       // \p{L}
constexpr Traits kNumber = 1 << 2;       // \p{N}
constexpr Traits kSign = 1 << 3;         // \p{P}, \p{S}
constexpr Traits kWhite = 1 << 4;        // \s
constexpr Traits kNewline = 1 << 5;      // CR, LF
constexpr Traits kBlank = 1 << 6;        // U+0020
constexpr Traits kAsciiSign = 1 << 7;    // a sign below U+0080
constexpr Traits kAsciiLetter = 1 << 8;  // A-Z, a-z
constexpr Traits kCjk = 1 << 9;          // the ranges of the second pattern
constexpr size_t kMaxDigits = 3;         // of a piece of numbers

Traits class_traits(CharClass c) {
  switch (c) {
    case CharClass::kLetter:
      return kWord | kLetter;
    case CharClass::kMark:
      return kWord;
    case CharClass::kNumber:
      return kNumber;
    case CharClass::kPunctuation:
    case CharClass::kSymbol:
      return kSign;
    case CharClass::kWhiteSpace:
      return kWhite;
    case CharClass::kOther:
      break;
  }
  return 0;
}

Traits find_traits(char32_t c) {
  Traits traits = class_traits(char_class(c));
  if (c < 0x80) {
    if ((traits & kSign) != 0) traits |= kAsciiSign;
    if ((traits & kLetter) != 0) traits |= kAsciiLetter;
    if (c == '\r' || c == '\n') traits |= kNewline;
    if (c == ' ') traits |= kBlank;
  }
  if ((c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF)) traits |= kCjk;
  return traits;
}

Traits traits_of(char32_t c) {
  static const auto ascii = [] {
    std::array<Traits, 0x80> table{};
    for (char32_t i = 0; i < table.size(); ++i) table[i] = find_traits(i);
    return table;
  }();
  return c < ascii.size() ? ascii[c] : find_traits(c);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    CHECK(text.size() < UINT32_MAX, "a text of less than 4 GiB");
    traits_.reserve(text.size());
    starts_.reserve(text.size() + 1);
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      traits_.push_back(traits_of(c.value));
      starts_.push_back(static_cast<uint32_t>(at));
      at += c.length;
    }
    starts_.push_back(static_cast<uint32_t>(text.size()));
  }

  std::vector<std::string_view> pieces() && {
    split_numbers();
    return std::move(pieces_);
  }

 private:
  // All positions count characters.
  void split_numbers() {
    for (size_t at = 0; at < traits_.size();) {
      const size_t numbers_end = run_of(at, traits_.size(), kNumber);
      for (; at < numbers_end; at = std::min(at + kMaxDigits, numbers_end)) {
        emit(at,
             std::min(at + kMaxDigits, numbers_end));  // whole: no later pattern matches a number
      }
      const size_t gap_end = run_without(at, traits_.size(), kNumber);
      split_cjk(at, gap_end);
      at = gap_end;
    }
  }

  void split_cjk(size_t at, size_t end) {
    while (at < end) {
      const bool cjk = is(at, kCjk);
      const size_t next = cjk ? run_of(at, end, kCjk) : run_without(at, end, kCjk);
      split_words(at, next);
      at = next;
    }
  }

  void split_words(size_t at, size_t end) {
    size_t gap = at;
    while (at < end) {
      const size_t match_end = match_word(at, end);
      if (match_end == at) {
        ++at;
        continue;
      }
      emit(gap, at);
      emit(at, match_end);
      gap = at = match_end;
    }
    emit(gap, end);
  }

  // The end of the third pattern's match at a character of a piece that ends at `end`; `at` itself
  // where there is none.
  size_t match_word(size_t at, size_t end) const {
    const bool word_follows = at + 1 < end && is(at + 1, kWord);
    if (is(at, kAsciiSign) && at + 1 < end && is(at + 1, kAsciiLetter))
      return run_of(at + 1, end, kAsciiLetter);
    if (is(at, kWord)) return run_of(at, end, kWord);
    if (word_follows && !is(at, kNewline | kSign)) return run_of(at + 1, end, kWord);
    const size_t sign = is(at, kBlank) && at + 1 < end ? at + 1 : at;
    if (is(sign, kSign)) return run_of(run_of(sign, end, kSign), end, kNewline);
    return match_white(at, end);
  }

  // To the last line end of the white space, if it has one; else all of it, but for the character
  // before a non-space.
  size_t match_white(size_t at, size_t end) const {
    const size_t white_end = run_of(at, end, kWhite);
    for (size_t last = white_end; last > at; --last) {
      if (is(last - 1, kNewline)) return last;
    }
    return white_end < end && white_end - at >= 2 ? white_end - 1 : white_end;
  }

  bool is(size_t at, Traits any) const { return (traits_[at] & any) != 0; }

  size_t run_of(size_t at, size_t end, Traits any) const {
    while (at < end && is(at, any)) ++at;
    return at;
  }

  size_t run_without(size_t at, size_t end, Traits any) const {
    while (at < end && !is(at, any)) ++at;
    return at;
  }

  void emit(size_t from, size_t to) {
    if (from < to) pieces_.push_back(text_.substr(starts_[from], starts_[to] - starts_[from]));
  }

  std::string_view text_;
  std::vector<Traits> traits_;    // [characters]
  std::vector<uint32_t> starts_;  // [characters + 1] byte offsets
  std::vector<std::string_view> pieces_;
};

}  // namespace

std::vector<std::string_view> pretokenize(std::string_view text) {
  return Scanner(text).pieces();
}

}  // namespace stoker
