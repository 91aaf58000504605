#include "chat/turns.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/try.h"

namespace stoker::chat {
namespace {

// Positions of the calls of one message by their ids. Borrows these.
using CallOrder = std::unordered_map<std::string_view, size_t>;

Error invalid(size_t index, const char* member, const std::string& message) {
  const std::string field = "messages[" + std::to_string(index) + "]." + member;
  return {ErrorCode::kInvalidArgument, field + ": " + message, field};
}

Result<Role> parse_role(const std::string& role, size_t index) {
  if (role == "system" || role == "developer") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool" || role == "function") return Role::kTool;
  if (role == "latest_reminder") return Role::kLatestReminder;
  return invalid(index, "role",
                 "expected system, developer, user, assistant, tool or latest_reminder, found " +
                     json_quote(role));
}

Result<Role> check(const Message& message, size_t index, bool is_last) {
  TRY_ASSIGN(const Role role, parse_role(message.role, index));
  const auto is_image = [](const Block& block) { return std::holds_alternative<Image>(block); };
  if (role == Role::kAssistant &&
      std::any_of(message.content.begin(), message.content.end(), is_image)) {
    return invalid(index, "content", "expected text from the assistant, found an image");
  }
  if (message.prefix && (!is_last || role != Role::kAssistant)) {
    return invalid(index, "prefix", "expected on the last message alone, from the assistant");
  }
  return role;
}

// Empty system messages, and reminders that directly follow another, have no effect.
bool is_left_out(Role role, const Message& message, const std::vector<Turn>& turns) {
  if (role == Role::kSystem) return !has_content(message);
  return role == Role::kLatestReminder && !turns.empty() && turns.back().role == role;
}

void add(std::vector<Turn>& turns, Role role, const Message& message) {
  const bool is_result = role == Role::kTool;
  if (is_result) role = Role::kUser;
  const bool continues = role == Role::kUser && !turns.empty() && turns.back().role == Role::kUser;
  if (!continues) turns.push_back({role, {}});
  turns.back().parts.push_back({&message, is_result});
}

CallOrder order_of(const std::vector<ToolCall>& calls) {
  CallOrder order;
  for (size_t i = 0; i < calls.size(); ++i) order[calls[i].id] = i;
  return order;
}

// Only results change places; texts stay where they are. An unknown id counts as the first.
void sort_results(std::vector<Part>& parts, const CallOrder& order) {
  const auto position = [&order](const Part& part) {
    const auto found = order.find(part.message->tool_call_id);
    return found == order.end() ? 0 : found->second;
  };
  std::vector<std::pair<size_t, Part>> results;
  for (const Part& part : parts) {
    if (part.is_result) results.emplace_back(position(part), part);
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto next = results.begin();
  for (Part& part : parts) {
    if (part.is_result) part = (next++)->second;
  }
}

void order_results(std::vector<Turn>& turns) {
  CallOrder order;
  for (Turn& turn : turns) {
    if (turn.role == Role::kAssistant && !turn.parts[0].message->tool_calls.empty()) {
      order = order_of(turn.parts[0].message->tool_calls);
    } else if (turn.role == Role::kUser && !order.empty()) {
      sort_results(turn.parts, order);
    }
  }
}

}  // namespace

bool has_content(const Message& message) {
  if (message.content.size() != 1) return !message.content.empty();
  const auto* text = std::get_if<std::string>(&message.content[0]);
  return text == nullptr || !text->empty();
}

bool continues_last(const Conversation& conversation) {
  return conversation.continue_last || conversation.messages.back().prefix;
}

Result<std::vector<Turn>> turns_of(const Conversation& conversation) {
  const std::vector<Message>& messages = conversation.messages;
  if (messages.empty()) {
    return Error{ErrorCode::kInvalidArgument, "messages: expected at least one, found none",
                 "messages"};
  }
  std::vector<Turn> turns;
  turns.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool is_last = i + 1 == messages.size();
    TRY_ASSIGN(const Role role, check(messages[i], i, is_last));
    if (is_last && conversation.continue_last && role != Role::kAssistant) {
      return invalid(i, "role",
                     "expected assistant, whose message the reply continues, found " +
                         json_quote(messages[i].role));
    }
    if (!is_left_out(role, messages[i], turns)) add(turns, role, messages[i]);
  }
  order_results(turns);
  return turns;
}

}  // namespace stoker::chat
