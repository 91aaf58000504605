// The template: messages to the text that the model was trained to read, with its control tokens
// marked. Knows no ids, so it is the same for every tokenizer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "chat/control.h"
#include "chat/conversation.h"
#include "chat/reply_start.h"
#include "chat/thinking.h"
#include "chat/writer.h"
#include "stoker/result.h"

namespace stoker::chat {

/// A prompt before it is tokenised. Only what is marked is a control token; whatever else spells
/// one is text. The text between two marks is one run, no matter from how many fields it came.
struct Rendered {
  std::string text;                ///< bytes of messages as they are, well-formed or not
  std::vector<ControlMark> marks;  ///< in order, disjoint
  std::vector<size_t> images;      ///< Image::index of each image mark, in order
  Thinking thinking;
  ReplyStart start{};
  bool has_calls = false;  ///< tools are attached, so calls are looked for in the reply
};

/// Errors: kInvalidArgument with the fields of turns_of, shown_tools and resolve_thinking.
Result<Rendered> render(const Conversation& conversation);

}  // namespace stoker::chat
