#include "checkpoint/json_text.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownBytes = 60;
constexpr size_t kMaxNameBytes = 200;
constexpr size_t kMaxShownItems = 64;

}  // namespace

Result<Json> parse_json_object(std::string_view text, size_t max_depth, size_t max_values) {
  JsonLimits limits;
  limits.max_depth = max_depth;
  limits.max_values = max_values;
  limits.repeated_keys_allowed = false;
  auto json = Json::parse(text, limits);
  if (!json) return Error{ErrorCode::kCorruptData, json.error().message, ""};
  if (!json->is_object()) {
    return Error{ErrorCode::kCorruptData, "expected a JSON object, found " + found(*json), ""};
  }
  return json;
}

std::string shown(std::string_view name) {
  const bool is_plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (is_plain && name.size() <= kMaxNameBytes) return std::string(name);
  return json_quote(name.substr(0, kMaxNameBytes)) + (name.size() > kMaxNameBytes ? "..." : "");
}

std::string found(const Json& value) {
  if (value.is_object() || value.items().size() > kMaxShownItems) return value.kind_name();
  if (value.as_string().size() > kMaxShownBytes) {
    return json_quote(repair_utf8(value.as_string().substr(0, kMaxShownBytes))) + "...";
  }
  std::string text = value.dump();
  if (text.size() > kMaxShownBytes) text = repair_utf8(text.substr(0, kMaxShownBytes)) + "...";
  return text;
}

}  // namespace stoker
