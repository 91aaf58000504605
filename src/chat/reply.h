// The first split of a reply, by token ids: reasoning, then content. Text and detokenising are the
// caller's.
#pragma once

#include <cstdint>

#include "chat/chat.h"

namespace stoker::chat {

enum class Channel { kReasoning, kContent };

/// Takes the ids of one reply as they come. Borrows the encoder. One owner.
class ReplySplitter {
 public:
  /// Where an id's text goes.
  struct Step {
    Channel channel = Channel::kContent;
    bool hidden = false;  ///< markup: its text is not shown
  };

  /// thinking: Prompt::thinking of the prompt that is answered.
  ReplySplitter(const Encoder& encoder, bool thinking)
      : encoder_(&encoder), in_reasoning_(thinking) {}

  /// The next id, any value. In reasoning the </think> token ends it, and <think> as the very first
  /// id is hidden; hidden in both channels is </think> and what Encoder::is_hidden says. The
  /// channel of </think> is the one it ends.
  Step push(int32_t id);

  /// Ids so far that belong to the reasoning, up to and including the </think> token.
  int32_t num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  const Encoder* encoder_;
  bool in_reasoning_;
  int32_t num_reasoning_tokens_ = 0;
};

}  // namespace stoker::chat
