// Reads --speculative-config.
#include "stoker/speculation.h"

#include <array>
#include <string_view>
#include <utility>

#include "api/resolve.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/try.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownBytes = 64;
constexpr JsonLimits kLimits = {.max_depth = 4, .max_values = 64, .repeated_keys_allowed = false};

std::string field_of(const std::string& key) {
  return "speculative_config." + key;
}

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= kMaxShownBytes ? text : text.substr(0, kMaxShownBytes) + "...";
}

Error expected(const std::string& key, const std::string& what, const Json& found) {
  return invalid(field_of(key), key + ": expected " + what + ", found " + shown(found));
}

Result<void> read_method(const Json& value, SpeculationOptions& /*options*/) {
  if (value.as_string() == "dspark") return {};
  return expected("method", "\"dspark\", the checkpoint's draft head", value);
}

Result<void> read_num_tokens(const Json& value, SpeculationOptions& options) {
  constexpr int64_t kMost = 1024;  // Engine::open knows the checkpoint's
  const auto number = value.as_int();
  if (!number || *number < 1 || *number > kMost) {
    return expected("num_speculative_tokens",
                    "1 to the checkpoint's dspark_block_size (no drafts: off)", value);
  }
  options.num_speculative_tokens = static_cast<int32_t>(*number);
  return {};
}

Result<void> read_adaptive(const Json& value, SpeculationOptions& options) {
  if (!value.is_bool()) return expected("enable_adaptive_verification", "true or false", value);
  options.enable_adaptive_verification = value.as_bool();
  return {};
}

Result<void> read_sampling(const std::string& key, const Json& value) {
  if (value.as_string() == "match") return {};
  return expected(key,
                  "\"match\", which keeps a draft where it is the token that would be chosen "
                  "without drafts; other methods would change answers",
                  value);
}

struct Key {
  std::string_view name;
  Result<void> (*read)(const Json& value, SpeculationOptions& options);
};

constexpr std::array kKeys = {
    Key{"method", read_method},
    Key{"num_speculative_tokens", read_num_tokens},
    Key{"enable_adaptive_verification", read_adaptive},
    Key{"draft_sample_method",
        [](const Json& value, SpeculationOptions& /*options*/) {
          return read_sampling("draft_sample_method", value);
        }},
    Key{"rejection_sample_method",
        [](const Json& value, SpeculationOptions& /*options*/) {
          return read_sampling("rejection_sample_method", value);
        }},
};

Error unknown_key(std::string_view key) {
  std::array<std::string_view, kKeys.size()> names;
  for (size_t i = 0; i < kKeys.size(); ++i) names[i] = kKeys[i].name;
  const std::string found(key.substr(0, kMaxShownBytes));
  return invalid(field_of(found), "unknown key \"" + found + "\"; did you mean \"" +
                                      std::string(nearest_name(found, names)) + "\"?");
}

Result<void> read_member(const Json::Member& member, SpeculationOptions& options) {
  for (const Key& key : kKeys) {
    if (key.name == member.first) return key.read(member.second, options);
  }
  return unknown_key(member.first);
}

}  // namespace

Result<SpeculationOptions> parse_speculative_config(const std::string& text) {
  SpeculationOptions options;
  if (text == "auto") return options;
  if (text == "off") {
    options.mode = Speculation::kOff;
    return options;
  }
  const std::string what = "expected auto, off or a JSON object such as {\"method\":\"dspark\"}";
  const auto json = Json::parse(text, kLimits);
  if (!json) return invalid("speculative_config", what + ": " + json.error().message);
  if (!json->is_object())
    return invalid("speculative_config", what + ", found " + json->kind_name());
  options.mode = Speculation::kOn;
  for (const Json::Member& member : json->members()) {
    if (auto read = read_member(member, options); !read) return std::move(read).error();
  }
  return options;
}

}  // namespace stoker
