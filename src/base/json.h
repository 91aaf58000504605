// JSON values. The parser behind it is nlohmann/json's, driven through its event interface, so that
// we set the limits: depth, number of values, repeated keys; and numbers keep their text, so that
// no integer goes through a double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stoker/result.h"

namespace stoker {

struct JsonLimits {
  size_t max_depth = 128;
  size_t max_values = 4'000'000;  ///< arrays, objects and scalars together; each costs 40 bytes
  bool repeated_keys_allowed =
      true;  ///< the last one wins, at the place of the first; else kCorruptData
};

/// A value with its members in the order of the text. A plain value; deep copies are costly, moves
/// are not.
class Json {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Json() = default;  ///< null
  static Json boolean(bool value);
  static Json integer(int64_t value);
  static Json unsigned_integer(uint64_t value);
  static Json real(double value);  ///< not finite: null
  static Json string(std::string value);
  static Json array(std::vector<Json> items = {});
  static Json object(std::vector<Member> members = {});
  static Json number_text(
      std::string text);  ///< a number as its text spells it; the caller vouches for the spelling

  /// Errors: kInvalidArgument with the byte offset and what was expected there; also beyond a
  /// limit, and for bytes that are not UTF-8. An unpaired surrogate escape becomes U+FFFD. Nothing
  /// but white space may follow the value.
  static Result<Json> parse(std::string_view text, const JsonLimits& limits = {});

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_number() const { return kind() == Kind::kNumber; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  /// "null", "a boolean", "a number", "a string", "an array", "an object": for messages.
  const char* kind_name() const;

  bool as_bool() const;                   ///< false unless a boolean
  const std::string& as_string() const;   ///< a string's content or a number's text; else empty
  std::optional<int64_t> as_int() const;  ///< a number without fraction or exponent that fits
  std::optional<uint64_t> as_unsigned() const;  ///< the same, 0 .. 2^64 - 1
  std::optional<double> as_double() const;      ///< any finite number
  const std::vector<Json>& items() const;       ///< empty unless an array
  const std::vector<Member>& members() const;   ///< empty unless an object

  /// The member of that name, or null where there is none. Linear in the number of members.
  const Json* find(std::string_view name) const;

  /// Adds a member to an object, or replaces the one of that name in place. The value must be an
  /// object.
  void set(std::string name, Json value);
  /// Adds an item to an array. The value must be an array.
  void push(Json value);

  /// Compact JSON in UTF-8; ill-formed UTF-8 in strings becomes U+FFFD.
  std::string dump() const;

 private:
  struct Number {
    std::string text;
  };
  // In the order of Kind.
  std::variant<std::monostate, bool, Number, std::string, std::vector<Json>, std::vector<Member>>
      value_;
};

/// How JSON is written: as Json::dump does, or with other separators and numbers.
struct JsonStyle {
  const char* comma = ",";
  const char* colon = ":";
  /// Appends a number of that text; null: as it is spelled.
  void (*append_number)(std::string& out, std::string_view text) = nullptr;
};

/// Appends a value in that style; else as Json::dump.
void append_json(std::string& out, const Json& value, const JsonStyle& style);

/// The text as a JSON string with its quotes: `"` `\` and control characters escaped, the rest raw;
/// ill-formed UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace stoker
