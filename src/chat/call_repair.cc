#include "chat/call_repair.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace stoker::chat {

std::string unwrapped_arguments(std::string arguments, const Json& parameters) {
  const Json* properties = parameters.find("properties");
  if (properties == nullptr) return arguments;
  for (const std::string_view key : {"arguments", "input"}) {
    const std::string head = "{\"" + std::string(key) + "\": ";
    if (!arguments.starts_with(head) || properties->find(key) != nullptr) continue;
    // With a second parameter behind the first this is no JSON.
    std::string inner = arguments.substr(head.size(), arguments.size() - head.size() - 1);
    const auto value = Json::parse(inner);
    if (!value.has_value() || !value->is_object()) continue;
    std::unordered_set<std::string_view> names;
    for (const auto& [name, property] : properties->members()) names.insert(name);
    const auto is_known = [&names](const Json::Member& member) {
      return names.contains(member.first);
    };
    if (std::all_of(value->members().begin(), value->members().end(), is_known)) return inner;
  }
  return arguments;
}

}  // namespace stoker::chat
