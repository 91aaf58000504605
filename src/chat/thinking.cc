#include "chat/thinking.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/json.h"
#include "base/try.h"

namespace stoker::chat {
namespace {

constexpr int32_t kDefaultEffort = 75;
constexpr int32_t kMaxEffort = 100;

struct NamedEffort {
  std::string_view name;
  int32_t effort;
};

// The numbers that the model was trained with under these names; "none" asks for no thinking.
constexpr std::array<NamedEffort, 8> kNamedEfforts = {{
    {"none", 0},
    {"minimal", 50},
    {"low", 50},
    {"medium", 75},
    {"high", 75},
    {"xhigh", 75},
    {"max", 100},
    {"ultra", 100},
}};

// 1 to 100 in decimal, without sign, leading zero or fraction.
std::optional<int32_t> parse_number(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.front() == '0' || number < 1 || number > kMaxEffort) return std::nullopt;
  return number;
}

// 0: no thinking.
Result<int32_t> parse_effort(std::string_view text) {
  const auto* named =
      std::find_if(kNamedEfforts.begin(), kNamedEfforts.end(),
                   [text](const NamedEffort& candidate) { return candidate.name == text; });
  if (named != kNamedEfforts.end()) return named->effort;
  if (const std::optional<int32_t> number = parse_number(text)) return *number;
  return Error{ErrorCode::kInvalidArgument,
               "reasoning_effort: expected none, minimal, low, medium, high, xhigh, max, ultra or "
               "an integer from 1 to 100, found " +
                   json_quote(text),
               "reasoning_effort"};
}

}  // namespace

Result<Thinking> resolve_thinking(const std::optional<std::string>& thinking,
                                  const std::optional<std::string>& reasoning_effort) {
  int32_t effort = kDefaultEffort;
  if (reasoning_effort.has_value()) {
    TRY_ASSIGN(effort, parse_effort(*reasoning_effort));
  }
  if (thinking == "disabled") return Thinking{};
  if (thinking == "enabled" || thinking == "adaptive") {
    return Thinking{true, effort == 0 ? kDefaultEffort : effort};
  }
  if (thinking.has_value()) {
    return Error{ErrorCode::kInvalidArgument,
                 "thinking: expected enabled, disabled or adaptive, found " + json_quote(*thinking),
                 "thinking"};
  }
  return Thinking{effort != 0, effort};
}

}  // namespace stoker::chat
