// Messages to a prompt of token ids, as the released model was trained to read them. What a prompt
// looks like is render.h's; here its control tokens get their ids and the text between them is
// tokenised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "chat/control.h"
#include "chat/conversation.h"
#include "chat/reply_start.h"
#include "chat/thinking.h"
#include "stoker/result.h"
#include "tokenizer/tokenizer.h"

namespace stoker::chat {

/// The prompt, and how the reply begins.
struct Prompt {
  std::vector<int32_t> ids;
  bool thinking = false;       ///< the reply begins with reasoning, up to the </think> token
  int32_t effort = 0;          ///< 1 to 100; 0 without thinking
  std::vector<size_t> images;  ///< Image::index of each image id in `ids`, in order
  ReplyStart start{};          ///< for ReplyOptions
  bool has_calls = false;      ///< likewise: tools are attached
};

/// Knows the control tokens of one tokenizer. Borrows it. Immutable; safe from any thread.
class Encoder {
 public:
  /// kUnsupported, naming the token, where the tokenizer lacks a control token of the chat format.
  /// Grounding tokens may be absent: their spellings are then text.
  static Result<Encoder> create(const Tokenizer& tokenizer);

  /// Errors: those of render(), their fields as the HTTP interface spells them ("messages[2].role",
  /// "reasoning_effort"). Any bytes may stand in the texts.
  Result<Prompt> encode(const Conversation& conversation) const;

  int32_t end_of_text() const { return id(Control::kEndOfText); }       ///< EOS
  int32_t begin_of_thinking() const { return id(Control::kThink); }     ///< <think>
  int32_t end_of_thinking() const { return id(Control::kEndOfThink); }  ///< </think>

  int32_t mark_of_calls() const { return id(Control::kDsml); }  ///< in all their markup

  /// Whether an id has no place in the text of a reply: the template's control tokens except
  /// <think>, </think> and the tag mark, which the reply's parser reads; <|EOT|>; special tokens
  /// and the vendor's own behind <｜latest_reminder｜>, both except grounding, which clients read;
  /// and ids that the tokenizer does not have. Any id.
  bool is_hidden(int32_t id) const;

 private:
  using Ids = std::array<int32_t, kControlSpellings.size()>;

  Encoder(const Tokenizer& tokenizer, const Ids& ids);
  int32_t id(Control control) const { return ids_[static_cast<size_t>(control)]; }

  const Tokenizer* tokenizer_;
  Ids ids_;              // in the order of Control; kAbsent where the tokenizer has no such token
  int32_t end_of_turn_;  // <|EOT|> or kAbsent
};

}  // namespace stoker::chat
