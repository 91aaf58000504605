#include "server/member_readers.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr size_t kMaxShownValueBytes = 40;  // of a value in a message

}  // namespace

std::string describe(const Json& value) {
  if (!value.is_number() && !value.is_bool()) return value.kind_name();
  const std::string text = value.dump();
  return text.size() <= kMaxShownValueBytes ? text : text.substr(0, kMaxShownValueBytes) + "...";
}

std::string item_of(const std::string& param, size_t index) {
  return param + "[" + std::to_string(index) + "]";
}

const Json* find_member(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::string> required_string(const Json& object, const char* name,
                                    const std::string& param) {
  const Json* value = object.find(name);
  if (value != nullptr && value->is_string()) return value->as_string();
  return wrong_value(param + "." + name, "a string", value == nullptr ? Json() : *value);
}

Result<std::optional<std::string>> optional_string(const Json& object, const char* name,
                                                   const std::string& param) {
  const Json* value = find_member(object, name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_value(param + "." + name, "a string", *value);
  return std::optional(value->as_string());
}

Result<const Json*> required_object(const Json& object, const char* name,
                                    const std::string& param) {
  const Json* value = object.find(name);
  if (value != nullptr && value->is_object()) return value;
  return wrong_value(param + "." + name, "an object", value == nullptr ? Json() : *value);
}

Result<std::optional<bool>> optional_bool(const Json& object, const char* name,
                                          const std::string& param) {
  const Json* value = find_member(object, name);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return wrong_value(param + "." + name, "a boolean", *value);
  return std::optional(value->as_bool());
}

Result<int32_t> int_or_0(const Json& object, const char* name, const std::string& param,
                         int32_t least, int32_t most) {
  const Json* value = find_member(object, name);
  const std::optional<int64_t> number = value == nullptr ? 0 : value->as_int();
  if (number && *number >= least && *number <= most) return static_cast<int32_t>(*number);
  return wrong_value(param + "." + name,
                     "an integer from " + std::to_string(least) + " to " + std::to_string(most),
                     value == nullptr ? Json() : *value);
}

Error wrong_value(const std::string& param, const std::string& expected, const Json& found) {
  return {ErrorCode::kInvalidArgument,
          param + ": expected " + expected + ", found " + describe(found), param};
}

Error not_supported(const std::string& param, const std::string& what) {
  return {ErrorCode::kUnsupported, param + ": " + what + " not supported yet", param};
}

bool is_among(std::span<const std::string_view> list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Result<std::string> word_of(const Json& value, const std::string& param,
                            std::span<const std::string_view> words) {
  if (value.is_string() && is_among(words, value.as_string())) return value.as_string();
  std::string expected;
  for (size_t i = 0; i < words.size(); ++i)
    expected += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  const std::string found = value.is_string()
                                ? json_quote(value.as_string().substr(0, kMaxShownValueBytes))
                                : describe(value);
  return Error{ErrorCode::kInvalidArgument, param + ": expected " + expected + ", found " + found,
               param};
}

}  // namespace stoker
