// Just enough JSON to print results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// The text as a JSON string with its quotes; ill-formed UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

/// [1,2,3]
std::string json_ids(const std::vector<int32_t>& ids);

/// A finite number, in the fewest digits that give it back.
std::string json_number(double value);

/// An array of values that are JSON already.
std::string json_array(const std::vector<std::string>& items);

/// An object, member by member.
class JsonObject {
 public:
  /// `value` is JSON already.
  JsonObject& add(std::string_view name, std::string_view value);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace stoker
