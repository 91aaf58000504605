#include "chat/python_json.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace stoker::chat {
namespace {

bool is_integer(std::string_view number) {
  return number.find_first_of(".eE") == std::string_view::npos;
}

// The digits of a number, its first digit at 10^exponent.
struct Decimal {
  bool is_negative = false;
  std::string digits;
  int32_t exponent = 0;
};

// From "-d.ddde-dd", the shortest digits that read back the same.
Decimal shortest(double value) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  std::string_view rest(text, end);
  Decimal decimal;
  decimal.is_negative = rest.starts_with('-');
  if (decimal.is_negative) rest.remove_prefix(1);
  const size_t e = rest.find('e');
  for (const char c : rest.substr(0, e)) {
    if (c != '.') decimal.digits += c;
  }
  std::string_view exponent = rest.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.exponent);
  return decimal;
}

void append_scientific(std::string& out, const Decimal& decimal) {
  out += decimal.digits[0];
  if (decimal.digits.size() > 1) {
    out += '.';
    out.append(decimal.digits, 1);
  }
  out += decimal.exponent < 0 ? "e-" : "e+";
  const std::string exponent =
      std::to_string(decimal.exponent < 0 ? -decimal.exponent : decimal.exponent);
  if (exponent.size() < 2) out += '0';
  out += exponent;
}

// At least one digit on each side of the point.
void append_fixed(std::string& out, const Decimal& decimal) {
  const std::string& digits = decimal.digits;
  if (decimal.exponent < 0) {
    out += "0.";
    out.append(static_cast<size_t>(-decimal.exponent - 1), '0');
    out += digits;
    return;
  }
  const auto num_whole = static_cast<size_t>(decimal.exponent) + 1;
  out.append(digits, 0, num_whole);
  if (digits.size() <= num_whole) {
    out.append(num_whole - digits.size(), '0');
    out += ".0";
  } else {
    out += '.';
    out.append(digits, num_whole);
  }
}

// Source: Python's float_repr, which takes the exponent from 1e16 on and below 1e-4.
void append_float(std::string& out, double value) {
  const Decimal decimal = shortest(value);
  if (decimal.is_negative) out += '-';
  if (decimal.exponent < -4 || decimal.exponent >= 16) {
    append_scientific(out, decimal);
  } else {
    append_fixed(out, decimal);
  }
}

void append_number(std::string& out, std::string_view text) {
  if (is_integer(text)) {
    out += text == "-0" ? "0" : text;
    return;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) {
    append_float(out, value);
  } else if (text.find("e-") != std::string_view::npos ||
             text.find("E-") != std::string_view::npos || text.find('.') <= 2) {
    // Too small for a double; what is too large is not let in by Json::parse.
    out += text.starts_with('-') ? "-0.0" : "0.0";
  } else {
    out += text;
  }
}

}  // namespace

void append_python_json(std::string& out, const Json& value) {
  append_json(out, value, {", ", ": ", append_number});
}

}  // namespace stoker::chat
