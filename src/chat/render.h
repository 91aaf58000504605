// The template: messages to the text that the model was trained to read, with its control tokens
// marked. Knows no ids, so it is the same for every tokenizer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "chat/control.h"
#include "chat/conversation.h"
#include "chat/thinking.h"
#include "stoker/result.h"

namespace stoker::chat {

/// A control token of a rendered prompt: text[begin, begin + spelling(control).size()).
struct ControlMark {
  size_t begin = 0;  ///< bytes
  Control control{};
};

/// A prompt before it is tokenised. Only what is marked is a control token; whatever else spells
/// one is text. The text between two marks is one run, no matter from how many fields it came.
struct Rendered {
  std::string text;                ///< bytes of messages as they are, well-formed or not
  std::vector<ControlMark> marks;  ///< in order, disjoint
  Thinking thinking;
};

/// Errors: kInvalidArgument with field "messages", "messages[2].role", "thinking" or
/// "reasoning_effort"; kUnsupported with the role's field for roles of tool calls.
Result<Rendered> render(const Conversation& conversation);

}  // namespace stoker::chat
