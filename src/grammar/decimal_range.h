// Which spellings of numbers lie in a range: exact, digit by digit, without floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// A decimal number, exact.
struct Decimal {
  bool negative = false;
  std::string integer = "0";  ///< digits, without leading zeros but for "0"
  std::string fraction;       ///< digits, without trailing zeros

  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
};

/// Of a JSON number's text; none if its exponent is beyond +-300.
std::optional<Decimal> parse_decimal(std::string_view text);
/// -1, 0, 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  struct Bound {
    Decimal value;
    bool inclusive = true;
  };
  std::optional<Bound> low;
  std::optional<Bound> high;
  bool integers_only = false;
  uint32_t multiple_of = 1;  ///< not 1 only with integers_only
};

/// The numbers of a range, written without exponent and without needless zeros in front; a fraction
/// may have any number of digits. May be empty. Error: kInvalidArgument beyond kMaxRegularStates.
Result<Regular> number_range(const NumberRange& range);

}  // namespace stoker::grammar
