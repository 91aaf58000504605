#include "chat/reply.h"

namespace stoker::chat {

ReplySplitter::Step ReplySplitter::push(int32_t id) {
  const bool is_hidden = id == encoder_->end_of_thinking() || encoder_->is_hidden(id);
  if (!in_reasoning_) return {Channel::kContent, is_hidden};
  const bool repeats_header = num_reasoning_tokens_ == 0 && id == encoder_->begin_of_thinking();
  ++num_reasoning_tokens_;
  in_reasoning_ = id != encoder_->end_of_thinking();
  return {Channel::kReasoning, repeats_header || is_hidden};
}

}  // namespace stoker::chat
