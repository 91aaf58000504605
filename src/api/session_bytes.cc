#include "api/session_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/try.h"
#include "snapshot/digest.h"
#include "snapshot/section.h"

namespace stoker {
namespace {

constexpr std::string_view kSessionMagic = "stoksess";
constexpr int64_t kSessionVersion = 1;
constexpr JsonLimits kSessionLimits{
    .max_depth = 8, .max_values = 1'000'000, .repeated_keys_allowed = false};

Error damaged_session(const std::string& what) {
  return {ErrorCode::kCorruptData, "session: " + what, ""};
}

// The members of an object, each of which is asked for once.
class Members {
 public:
  Members(const Json& object, std::string where) : where_(std::move(where)) {
    if (!object.is_object()) problem_ = "expected an object, found " + found(object);
    for (const auto& [name, value] : object.members()) left_.emplace_back(name, &value);
  }

  std::optional<std::string> text(std::string_view name) {
    const Json* value = take(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail(name, "a string", *value);
    return value->as_string();
  }

  std::string needed_text(std::string_view name) {
    auto value = text(name);
    if (!value) fail(name, "a string", Json());
    return value.value_or("");
  }

  int64_t needed_count(std::string_view name) {
    const Json* value = take(name);
    const auto count = value == nullptr ? std::nullopt : value->as_int();
    if (count && *count >= 0) return *count;
    fail(name, "a number of at least 0", value == nullptr ? Json() : *value);
    return 0;
  }

  /// Empty where there is none.
  const std::vector<Json>& items(std::string_view name) {
    static const std::vector<Json> none;
    const Json* value = take(name);
    if (value == nullptr) return none;
    if (!value->is_array()) fail(name, "an array", *value);
    return value->items();
  }

  void fail(std::string_view name, const std::string& expected, const Json& value) {
    if (!problem_)
      problem_ = std::string(name) + ": expected " + expected + ", found " + found(value);
  }

  /// When all members were asked for.
  Result<void> check() const {
    if (problem_) return damaged_session(where_ + *problem_);
    if (!left_.empty())
      return damaged_session(where_ + "found an unknown member " + left_[0].first);
    return {};
  }

 private:
  static std::string found(const Json& value) { return value.kind_name(); }

  const Json* take(std::string_view name) {
    const auto it =
        std::ranges::find_if(left_, [name](const auto& member) { return member.first == name; });
    if (it == left_.end()) return nullptr;
    const Json* const value = it->second;
    left_.erase(it);
    return value;
  }

  std::string where_;
  std::vector<std::pair<std::string, const Json*>> left_;
  std::optional<std::string> problem_;
};

void set_text(Json& object, const char* name, const std::string& value) {
  if (!value.empty()) object.set(name, Json::string(value));
}

Json json_of(const Message& message) {
  Json object = Json::object();
  object.set("role", Json::string(message.role));
  Json content = Json::array();
  for (const std::string& block : message.content) content.push(Json::string(block));
  object.set("content", std::move(content));
  set_text(object, "reasoning_content", message.reasoning_content);
  set_text(object, "tool_call_id", message.tool_call_id);
  if (message.tool_calls.empty()) return object;
  Json calls = Json::array();
  for (const ToolCall& call : message.tool_calls) {
    Json one = Json::object();
    one.set("id", Json::string(call.id));
    one.set("name", Json::string(call.name));
    one.set("arguments", Json::string(call.arguments));
    calls.push(std::move(one));
  }
  object.set("tool_calls", std::move(calls));
  return object;
}

Result<Message> read_message(const Json& json, const std::string& where) {
  Members members(json, where);
  Message message;
  message.role = members.needed_text("role");
  message.reasoning_content = members.text("reasoning_content").value_or("");
  message.tool_call_id = members.text("tool_call_id").value_or("");
  for (const Json& block : members.items("content")) {
    if (!block.is_string()) members.fail("content", "strings", block);
    message.content.push_back(block.as_string());
  }
  for (const Json& call : members.items("tool_calls")) {
    Members of_call(call, where + "tool_calls: ");
    message.tool_calls.push_back(
        {of_call.needed_text("id"), of_call.needed_text("name"), of_call.needed_text("arguments")});
    if (auto checked = of_call.check(); !checked) return std::move(checked).error();
  }
  if (auto checked = members.check(); !checked) return std::move(checked).error();
  return message;
}

}  // namespace

std::string session_json(const SessionText& text) {
  Json object = Json::object();
  object.set("name", Json::string(text.session.name));
  object.set("model", Json::string(text.model));
  object.set("model_digest", Json::string(text.model_digest));
  object.set("numeric_mode", Json::string(text.numeric_mode));
  object.set("tokens", Json::integer(text.num_tokens));
  if (text.session.thinking) object.set("thinking", Json::string(*text.session.thinking));
  if (text.session.reasoning_effort)
    object.set("reasoning_effort", Json::string(*text.session.reasoning_effort));
  Json messages = Json::array();
  for (const Message& message : text.session.messages) messages.push(json_of(message));
  object.set("messages", std::move(messages));
  return object.dump();
}

Result<SessionText> parse_session_json(std::string_view json) {
  const auto parsed = Json::parse(json, kSessionLimits);
  if (!parsed) return damaged_session(parsed.error().message);
  Members members(*parsed, "");
  SessionText text;
  text.session.name = members.needed_text("name");
  text.model = members.needed_text("model");
  text.model_digest = members.needed_text("model_digest");
  text.numeric_mode = members.needed_text("numeric_mode");
  text.num_tokens = members.needed_count("tokens");
  text.session.thinking = members.text("thinking");
  text.session.reasoning_effort = members.text("reasoning_effort");
  const std::vector<Json>& messages = members.items("messages");
  if (auto checked = members.check(); !checked) return std::move(checked).error();
  for (size_t i = 0; i < messages.size(); ++i) {
    TRY_ASSIGN(Message message, read_message(messages[i], "messages[" + std::to_string(i) + "]: "));
    text.session.messages.push_back(std::move(message));
  }
  if (!snapshot::is_kind(text.session.name) || !snapshot::Digest::from_hex(text.model_digest))
    return damaged_session("expected a name and a digest of a model");
  return text;
}

std::string SessionLayout::head() const {
  std::string out(kSessionMagic);
  append_le(out, kSessionVersion);
  append_le(out, text_bytes);
  append_le(out, prefix_bytes);
  return out;
}

Result<SessionLayout> SessionLayout::read(Bytes head, int64_t bytes) {
  if (static_cast<int64_t>(head.size()) < kHeadBytes ||
      !std::equal(kSessionMagic.begin(), kSessionMagic.end(), head.begin()))
    return damaged_session("expected it to begin with " + std::string(kSessionMagic));
  const auto version = load_le<int64_t>(head.data() + 8);
  if (version != kSessionVersion) {
    return Error{ErrorCode::kUnsupported,
                 "session: expected version " + std::to_string(kSessionVersion) + ", found " +
                     std::to_string(version),
                 ""};
  }
  SessionLayout layout{load_le<int64_t>(head.data() + 16), load_le<int64_t>(head.data() + 24)};
  if (layout.text_bytes < 0 || layout.text_bytes > kMaxTextBytes || layout.prefix_bytes < 0 ||
      layout.prefix_bytes > bytes || layout.bytes() != bytes) {
    return damaged_session("expected sizes that make " + std::to_string(bytes) + " bytes, found " +
                           std::to_string(layout.text_bytes) + " and " +
                           std::to_string(layout.prefix_bytes));
  }
  return layout;
}

}  // namespace stoker
