#include "checkpoint/config_reader.h"

#include <charconv>

#include "checkpoint/json_text.h"

namespace stoker {
namespace {

constexpr size_t kMaxListItems = 4096;

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string range_text(const char* what, const std::string& low, const std::string& high) {
  return std::string(what) + " from " + low + " to " + high;
}

std::string integer_range(int64_t low, int64_t high) {
  return range_text("an integer", std::to_string(low), std::to_string(high));
}

std::string real_range(double low, double high) {
  return range_text("a number", number_text(low), number_text(high));
}

}  // namespace

const Json* ConfigReader::find(ConfigKey key) const {
  if (key.short_name != nullptr) {
    if (const Json* value = object_.find(key.short_name)) return value;
  }
  return object_.find(key.name);
}

const Json* ConfigReader::find_value(ConfigKey key) const {
  const Json* value = find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

void ConfigReader::fail(ErrorCode code, ConfigKey key, const std::string& expected,
                        const std::string& what) {
  if (error_) return;
  const bool is_short = key.short_name != nullptr && object_.find(key.short_name) != nullptr;
  error_ = Error{code,
                 prefix_ + (is_short ? key.short_name : key.name) + ": expected " + expected +
                     ", found " + what,
                 ""};
}

const Json* ConfigReader::required(ConfigKey key, const std::string& expected) {
  const Json* value = find(key);
  if (value == nullptr) fail(ErrorCode::kInvalidArgument, key, expected, "no such key");
  return value;
}

int64_t ConfigReader::checked_integer(const Json& value, ConfigKey key, int64_t low, int64_t high) {
  const auto number = value.as_int();
  if (number && *number >= low && *number <= high) return *number;
  fail(ErrorCode::kInvalidArgument, key, integer_range(low, high), found(value));
  return low;
}

double ConfigReader::checked_real(const Json& value, ConfigKey key, double low, double high) {
  const auto number = value.as_double();
  if (number && *number >= low && *number <= high) return *number;
  fail(ErrorCode::kInvalidArgument, key, real_range(low, high), found(value));
  return low;
}

int64_t ConfigReader::long_integer(ConfigKey key, int64_t low, int64_t high) {
  const Json* value = required(key, integer_range(low, high));
  return value != nullptr ? checked_integer(*value, key, low, high) : low;
}

int32_t ConfigReader::integer(ConfigKey key, int64_t low, int64_t high) {
  return static_cast<int32_t>(long_integer(key, low, high));
}

int32_t ConfigReader::integer_or(ConfigKey key, int32_t fallback, int64_t low, int64_t high) {
  const Json* value = find_value(key);
  return value != nullptr ? static_cast<int32_t>(checked_integer(*value, key, low, high))
                          : fallback;
}

int32_t ConfigReader::multiple_of_32(ConfigKey key, int64_t high) {
  const int32_t value = integer(key, 32, high);
  if (value % 32 != 0) {
    fail(ErrorCode::kInvalidArgument, key, "a multiple of 32", std::to_string(value));
  }
  return value;
}

double ConfigReader::real(ConfigKey key, double low, double high) {
  const Json* value = required(key, real_range(low, high));
  return value != nullptr ? checked_real(*value, key, low, high) : low;
}

double ConfigReader::real_or(ConfigKey key, double fallback, double low, double high) {
  const Json* value = find_value(key);
  return value != nullptr ? checked_real(*value, key, low, high) : fallback;
}

bool ConfigReader::boolean(ConfigKey key) {
  const Json* value = required(key, "a boolean");
  if (value != nullptr && !value->is_bool()) {
    fail(ErrorCode::kInvalidArgument, key, "a boolean", found(*value));
  }
  return value != nullptr && value->as_bool();
}

std::string ConfigReader::text(ConfigKey key) {
  const Json* value = required(key, "a string");
  if (value != nullptr && !value->is_string()) {
    fail(ErrorCode::kInvalidArgument, key, "a string", found(*value));
  }
  return value != nullptr ? value->as_string() : "";
}

std::vector<int64_t> ConfigReader::integers(ConfigKey key, int64_t low, int64_t high) {
  const std::string expected =
      "a list of integers from " + std::to_string(low) + " to " + std::to_string(high);
  std::vector<int64_t> numbers;
  const Json* value = required(key, expected);
  if (value == nullptr) return numbers;
  if (!value->is_array() || value->items().size() > kMaxListItems) {
    fail(ErrorCode::kInvalidArgument, key, expected, found(*value));
    return numbers;
  }
  for (const Json& item : value->items()) {
    const auto number = item.as_int();
    if (!number || *number < low || *number > high) {
      fail(ErrorCode::kInvalidArgument, key, expected, found(item) + " in it");
      return numbers;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int32_t> ConfigReader::layers(ConfigKey key, int32_t num_layers) {
  std::vector<int32_t> ids;
  for (const int64_t id : integers(key, 0, num_layers - 1)) {
    if (!ids.empty() && id <= ids.back()) {
      fail(ErrorCode::kInvalidArgument, key, "ascending layer numbers",
           std::to_string(id) + " after " + std::to_string(ids.back()));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

ConfigReader ConfigReader::child(const Json& object, const std::string& name) const {
  return {object, prefix_ + name + "."};
}

void ConfigReader::adopt(const ConfigReader& other) {
  if (!error_) error_ = other.error_;
}

void ConfigReader::require(ConfigKey key, const Json& value) {
  const Json* there = find_value(key);
  if (there == nullptr || there->dump() == value.dump()) return;
  fail(ErrorCode::kUnsupported, key, value.dump(), found(*there));
}

}  // namespace stoker
