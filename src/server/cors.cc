#include "server/cors.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace stoker {
namespace {

// What a browser takes for all headers, but for the one that it wants to be named.
constexpr const char* kAllHeaders = "Authorization, *";

bool has_item(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool is_all(const std::vector<std::string>& list) {
  return has_item(list, "*");
}

std::string with_commas(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) out.append(out.empty() ? "" : ", ").append(item);
  return out;
}

// With credentials a "*" stands for itself alone: what is asked for is named.
std::string told_headers(const CorsRules& rules, const HttpRequest& request) {
  if (!is_all(rules.headers)) return with_commas(rules.headers);
  return rules.has_credentials ? request.wanted_headers : kAllHeaders;
}

Result<std::string> read_cors_item(const Json& item) {
  const std::string text = item.is_string() ? item.as_string() : std::string();
  const bool is_good = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != ',';
  });
  if (is_good) return text;
  return Error{ErrorCode::kInvalidArgument,
               "expected visible ASCII characters without commas, found " + item.dump(), ""};
}

}  // namespace

Result<std::vector<std::string>> parse_cors_list(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    Json list = Json::array();
    if (text.starts_with("[")) {
      TRY_ASSIGN(list, Json::parse(text));
    } else {
      list.push(Json::string(text));
    }
    for (const Json& item : list.items()) {
      TRY_ASSIGN(std::string read, read_cors_item(item));
      items.push_back(std::move(read));
    }
  }
  return items;
}

std::string cors_lines(const CorsRules& rules, const HttpRequest& request,
                       std::string_view methods) {
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view value) {
    if (!value.empty()) out.append(name).append(": ").append(value).append("\r\n");
  };
  const bool is_for_all = is_all(rules.origins) && !rules.has_credentials;
  if (!is_for_all) add("Vary", "Origin");
  const bool is_listed = is_all(rules.origins) || has_item(rules.origins, request.origin);
  if (!is_listed) return out;
  add("Access-Control-Allow-Origin", is_for_all ? "*" : request.origin);
  if (rules.has_credentials) add("Access-Control-Allow-Credentials", "true");
  if (request.method != "OPTIONS") return out;
  add("Access-Control-Allow-Methods",
      is_all(rules.methods) ? std::string(methods) : with_commas(rules.methods));
  add("Access-Control-Allow-Headers", told_headers(rules, request));
  return out;
}

}  // namespace stoker
