#include "chat/render.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace stoker::chat {
namespace {

enum class Role { kSystem, kUser, kAssistant, kLatestReminder };

// A message that is rendered, its role understood. Borrows the message.
struct Turn {
  Role role;
  const Message* message;
};

constexpr std::string_view kBlockSeparator = "\n\n";

std::string effort_line(int32_t effort) {
  return "Reasoning Effort: " + std::to_string(effort) +
         " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
}

Result<Role> parse_role(const std::string& role, size_t index) {
  if (role == "system" || role == "developer") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "latest_reminder") return Role::kLatestReminder;
  const bool of_tools = role == "tool" || role == "function";
  const std::string field = "messages[" + std::to_string(index) + "].role";
  return Error{of_tools ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
               field + ": expected system, developer, user, assistant or latest_reminder, found " +
                   json_quote(role),
               field};
}

// Blocks are joined by a separator, so two empty ones are not empty.
bool has_content(const Message& message) {
  return message.content.size() > 1 || (message.content.size() == 1 && !message.content[0].empty());
}

// Leaves out empty system messages, and then reminders that directly follow another.
Result<std::vector<Turn>> clean(const std::vector<Message>& messages) {
  std::vector<Turn> turns;
  turns.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    TRY_ASSIGN(const Role role, parse_role(messages[i].role, i));
    if (role == Role::kSystem && !has_content(messages[i])) continue;
    const bool repeats =
        role == Role::kLatestReminder && !turns.empty() && turns.back().role == role;
    if (!repeats) turns.push_back({role, &messages[i]});
  }
  return turns;
}

// Builds a Rendered from its pieces.
class Writer {
 public:
  explicit Writer(size_t expected_bytes) { out_.text.reserve(expected_bytes); }

  void control(Control control) {
    out_.marks.push_back({out_.text.size(), control});
    out_.text += spelling(control);
  }

  void text(std::string_view text) { out_.text += text; }

  void blocks(const std::vector<std::string>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i > 0) text(kBlockSeparator);
      text(blocks[i]);
    }
  }

  // Text of the model itself, from `begin` to the end of what is written: grounding spellings in it
  // are control tokens.
  void mark_grounding(size_t begin) {
    constexpr std::string_view kOpening = "<｜";  // all eight begin like this
    const std::string_view all = out_.text;
    for (size_t at = all.find(kOpening, begin); at != std::string_view::npos;
         at = all.find(kOpening, at + kOpening.size())) {
      for (size_t i = kFirstGrounding; i < kControlSpellings.size(); ++i) {
        if (all.substr(at).starts_with(kControlSpellings[i])) {
          out_.marks.push_back({at, static_cast<Control>(i)});
        }
      }
    }
  }

  size_t size() const { return out_.text.size(); }

  Rendered finish(const Thinking& thinking) && {
    out_.thinking = thinking;
    return std::move(out_);
  }

 private:
  Rendered out_;
};

// Adjacent user messages are one turn.
void write_user(Writer& out, const Message& message, bool continues) {
  if (continues) {
    out.text(kBlockSeparator);
  } else {
    out.control(Control::kUser);
  }
  out.blocks(message.content);
}

void write_assistant(Writer& out, const Message& message, bool keep_reasoning) {
  out.control(Control::kAssistant);
  if (keep_reasoning) {
    out.control(Control::kThink);
    const size_t begin = out.size();
    out.text(message.reasoning_content);
    out.mark_grounding(begin);
  }
  out.control(Control::kEndOfThink);
  const size_t begin = out.size();
  out.blocks(message.content);
  out.mark_grounding(begin);
  out.control(Control::kEndOfText);
}

// The prompt's head holds the effort, in the system message if that comes first, else in one of its
// own.
void write_head(Writer& out, const Turn& first, const Thinking& thinking) {
  if (thinking.enabled || first.role == Role::kSystem) out.control(Control::kSystem);
  if (thinking.enabled) out.text(effort_line(thinking.effort));
}

void write_turn(Writer& out, const std::vector<Turn>& turns, size_t i, bool keep_reasoning) {
  const Message& message = *turns[i].message;
  switch (turns[i].role) {
    case Role::kSystem:
      if (i > 0) out.control(Control::kSystem);
      out.blocks(message.content);
      break;
    case Role::kUser:
      write_user(out, message, i > 0 && turns[i - 1].role == Role::kUser);
      break;
    case Role::kAssistant:
      write_assistant(out, message, keep_reasoning);
      break;
    case Role::kLatestReminder:
      out.control(Control::kLatestReminder);
      out.blocks(message.content);
      break;
  }
}

// At least what the turns need, so that the text is not moved while it grows.
size_t expected_bytes(const std::vector<Turn>& turns) {
  constexpr size_t kHeadBytes = 256;
  constexpr size_t kTurnBytes = 64;
  size_t total = kHeadBytes + kTurnBytes * turns.size();
  for (const Turn& turn : turns) {
    total += turn.message->reasoning_content.size();
    for (const std::string& block : turn.message->content) {
      total += block.size() + kBlockSeparator.size();
    }
  }
  return total;
}

}  // namespace

Result<Rendered> render(const Conversation& conversation) {
  if (conversation.messages.empty()) {
    return Error{ErrorCode::kInvalidArgument, "messages: expected at least one, found none",
                 "messages"};
  }
  TRY_ASSIGN(const Thinking thinking,
             resolve_thinking(conversation.thinking, conversation.reasoning_effort));
  TRY_ASSIGN(const std::vector<Turn> turns, clean(conversation.messages));
  Writer out(expected_bytes(turns));
  out.control(Control::kBeginOfText);
  if (!turns.empty()) write_head(out, turns.front(), thinking);
  for (size_t i = 0; i < turns.size(); ++i) {
    write_turn(out, turns, i, thinking.enabled && conversation.keep_reasoning);
  }
  out.control(Control::kAssistant);
  out.control(thinking.enabled ? Control::kThink : Control::kEndOfThink);
  return std::move(out).finish(thinking);
}

}  // namespace stoker::chat
