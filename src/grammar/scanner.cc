#include "grammar/scanner.h"

#include "base/utf8.h"

namespace stoker::grammar {
namespace {

constexpr uint32_t kMaxRepeat = 100'000;  // of one quantifier

}  // namespace

char32_t Scanner::take_code_point() {
  const CodePoint point = decode_utf8(text_, at_);
  at_ += point.length;
  return point.value;
}

Error Scanner::bad(const std::string& expected) const {
  return {ErrorCode::kInvalidArgument,
          std::string(subject_) + ": expected " + expected + " at byte " + std::to_string(at_) +
              (at_end() ? ", found the end" : ""),
          {}};
}

Result<uint32_t> Scanner::parse_count() {
  if (peek() < '0' || peek() > '9') return bad("a number");
  uint32_t count = 0;
  while (peek() >= '0' && peek() <= '9') {
    count = count * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    if (count > kMaxRepeat) return bad("a number of at most " + std::to_string(kMaxRepeat));
  }
  return count;
}

Result<uint32_t> Scanner::take_hex_digit() {
  const size_t nibble = std::string_view("0123456789abcdefABCDEF").find(peek());
  if (nibble == std::string_view::npos) return bad("a hexadecimal digit");
  ++at_;
  return static_cast<uint32_t>(nibble > 15 ? nibble - 6 : nibble);
}

std::optional<char32_t> Scanner::take_letter_escape() {
  constexpr std::string_view kLetters = "nrtfvb0";
  constexpr std::string_view kMeant("\n\r\t\f\v\b\0", 7);
  const size_t which = kLetters.find(peek());
  if (which == std::string_view::npos) return std::nullopt;
  ++at_;
  return static_cast<char32_t>(kMeant[which]);
}

}  // namespace stoker::grammar
