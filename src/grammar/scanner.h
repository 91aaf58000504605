// What the parsers of expressions and of EBNF share: a place in a text, errors that name it, and
// what both notations spell alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/result.h"

namespace stoker::grammar {

/// Base of a parser. Borrows the text, which is UTF-8.
class Scanner {
 protected:
  /// `subject`: what the text is, for errors. Static.
  Scanner(std::string_view text, const char* subject) : text_(text), subject_(subject) {}

  bool at_end() const { return at_ == text_.size(); }
  /// A byte from here on; 0 beyond the end.
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// The character here, which is not the end.
  char32_t take_code_point();

  /// kInvalidArgument: what is expected here.
  Error bad(const std::string& expected) const;

  /// How often something is repeated, in decimal. Error: bad(), also beyond 100,000.
  Result<uint32_t> parse_count();
  /// Error: bad().
  Result<uint32_t> take_hex_digit();
  /// What the letter of `\n`, `\r`, `\t`, `\f`, `\v`, `\b` or `\0` stands for; none of another.
  std::optional<char32_t> take_letter_escape();

  const std::string_view text_;
  size_t at_ = 0;  // bytes

 private:
  const char* subject_;
};

}  // namespace stoker::grammar
