// Messages to a prompt, as the released model was trained to read them, and the first split of its reply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"
#include "tokenizer/tokenizer.h"

namespace stoker::chat {

/// One message as the caller sent it.
struct Message {
  std::string role;                  ///< system, developer, user, assistant, latest_reminder
  std::vector<std::string> content;  ///< text blocks, UTF-8
  std::string reasoning_content;     ///< of an assistant message
};

struct Conversation {
  std::vector<Message> messages;
  std::optional<std::string> thinking;          ///< "enabled", "disabled", "adaptive"
  std::optional<std::string> reasoning_effort;  ///< a name, or an integer in decimal
};

/// The prompt, and in which channel the reply begins.
struct Prompt {
  std::vector<int32_t> ids;
  bool thinking = false;  ///< the reply begins with reasoning, up to the </think> token
  int32_t effort = 0;     ///< 1 to 100; 0 without thinking
};

/// Knows the control tokens of one tokenizer. Borrows it. Immutable; safe from any thread.
class Encoder {
 public:
  /// kUnsupported, naming the token, where the tokenizer lacks a control token of the chat format.
  static Result<Encoder> create(const Tokenizer& tokenizer);

  /// Errors: kInvalidArgument with the field as the HTTP interface spells it ("messages[2].role", "reasoning_effort").
  Result<Prompt> encode(const Conversation& conversation) const;

  int32_t end_of_text() const;  ///< EOS
  int32_t end_of_thinking() const;  ///< </think>
};

}  // namespace stoker::chat
