#include "api/reply_text.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

// Tokens behind a block of calls, where only another block would mean something.
constexpr int32_t kMaxTokensAfterCalls = 16;

chat::ReplyStart parser_start(ReplyStart start) {
  switch (start) {
    case ReplyStart::kThinking:
      return chat::ReplyStart::kReasoningLead;
    case ReplyStart::kOpenThinking:
      return chat::ReplyStart::kReasoning;
    case ReplyStart::kOpenChat:
      return chat::ReplyStart::kContent;
    case ReplyStart::kCalls:
      return chat::ReplyStart::kCalls;
    case ReplyStart::kText:
    case ReplyStart::kChat:
      break;
  }
  return chat::ReplyStart::kContentLead;
}

bool is_first_byte(char c) {
  return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
}

void append_piece(std::vector<CallPiece>& calls, chat::Delta& delta) {
  if (delta.kind == chat::DeltaKind::kCallBegin) {
    calls.push_back({delta.call, std::move(delta.text)});
    return;
  }
  if (calls.empty() || calls.back().call != delta.call) calls.push_back({delta.call});
  calls.back().arguments += delta.text;
  calls.back().is_last = delta.kind == chat::DeltaKind::kCallEnd;
}

}  // namespace

ReplyText::ReplyText(const Tokenizer* tokenizer, const ReplyFormat& reply, const Stops& stops)
    : stops_(stops.strings, stops.are_shown), one_call_(reply.one_call) {
  if (tokenizer == nullptr) return;
  const bool is_chat = reply.start != ReplyStart::kText;
  stops_everywhere_ = is_chat && stops.everywhere;
  detokenizer_.emplace(*tokenizer, /*skip_special=*/!is_chat);
  if (!is_chat) return;
  chat::ReplyOptions options;
  options.start = parser_start(reply.start);
  options.has_calls = reply.has_calls;
  options.one_call = reply.one_call;
  if (!reply.only_tool.empty()) options.only_tool = reply.only_tool;
  parser_.emplace(options);
}

void ReplyText::push(int32_t token, bool is_hidden, bool may_stop,
                     std::optional<PositionLogprobs> logprobs, Event& event) {
  if (parser_ && parser_->is_reasoning()) ++num_reasoning_tokens_;
  if (parser_ && parser_->is_done()) ++num_after_calls_;
  const size_t begin = num_made_;
  if (!is_hidden && detokenizer_) take_text(detokenizer_->push(token), may_stop, event);
  const size_t end = is_hidden || !detokenizer_ ? begin : std::max(num_made_, begin + 1);
  untold_.push_back({token, is_hidden, begin, end, std::move(logprobs)});
  are_calls_over_ =
      parser_ && parser_->is_done() && (one_call_ || num_after_calls_ >= kMaxTokensAfterCalls);
  tell(is_over(), event);
}

void ReplyText::finish(chat::ReplyEnd end, bool may_stop, Event& event) {
  if (!is_over() && detokenizer_) take_text(detokenizer_->finish(), may_stop, event);
  if (stops_everywhere_ && !are_calls_over_) {
    parser_->push(stops_.finish(), output_);
    // What a stop string cuts off is not whole, whatever came behind it.
    const auto how = stops_.matched() ? chat::ReplyEnd::kLength : end;
    unfinished_ = parser_->finish(how, output_).unfinished;
    take_output(may_stop, event);
  } else if (!is_over() && parser_) {
    unfinished_ = parser_->finish(end, output_).unfinished;
    take_output(may_stop, event);
  }
  if (!is_over() && !stops_everywhere_) {
    const std::string rest = stops_.finish();
    num_out_ += rest.size();
    event.text += rest;
  }
  tell(true, event);
}

void ReplyText::take_text(std::string_view text, bool may_stop, Event& event) {
  num_made_ += text.size();
  text_ += text;
  if (stops_everywhere_) {
    parser_->push(stops_.push(text, may_stop), output_);
    take_output(may_stop, event);
  } else if (parser_) {
    parser_->push(text, output_);
    take_output(may_stop, event);
  } else {
    if (!text.empty()) ranges_.push_back({num_made_, chat::ReplyPart::kContent, true});
    take_content(std::string(text), may_stop, event);
  }
}

void ReplyText::take_output(bool may_stop, Event& event) {
  ranges_.insert(ranges_.end(), output_.parts.begin(), output_.parts.end());
  for (chat::Delta& delta : output_.deltas) {
    if (stops_.matched() && !stops_everywhere_) break;
    if (delta.kind == chat::DeltaKind::kReasoning) {
      event.reasoning += delta.text;
    } else if (delta.kind == chat::DeltaKind::kContent) {
      take_content(delta.text, may_stop, event);
    } else {
      append_piece(event.calls, delta);
    }
  }
  output_.parts.clear();
  output_.deltas.clear();
}

void ReplyText::take_content(const std::string& text, bool may_stop, Event& event) {
  const std::string shown = stops_everywhere_ ? text : stops_.push(text, may_stop);
  num_out_ += shown.size();
  event.text += shown;
}

// Tokens of whose text the parts are known; at the end of all.
void ReplyText::tell(bool is_all, Event& event) {
  while (!untold_.empty() && (is_all || untold_.front().end <= num_settled())) {
    Untold& token = untold_.front();
    TokenDetail detail = describe(token);
    event.ids.push_back(token.id);
    if (token.logprobs) {
      detail.logprobs = *std::move(token.logprobs);
      event.details.push_back(std::move(detail));
    }
    untold_.pop_front();
  }
}

// Walks over its text. Tokens that are parts of one character begin at the same byte.
TokenDetail ReplyText::describe(const Untold& token) {
  if (token.begin >= told_.input) told_before_ = told_;
  TokenDetail detail;
  const auto part = advance(token.end);
  // Behind the calls, and behind a stop string, nothing is known of it.
  detail.part = token.is_hidden ? TokenPart::kHidden : part.value_or(TokenPart::kContent);
  detail.text_offset = detail.part == TokenPart::kReasoning ? told_before_.reasoning_characters
                                                            : told_before_.content_characters;
  const bool is_content = detokenizer_ && detail.part == TokenPart::kContent;
  unshown_.push_back(
      {is_content, told_before_.content, std::max(told_.content, told_before_.content + 1)});
  return detail;
}

// Counts the text up to `end`; the part of its first byte that is text, else hidden; none where it
// holds no byte whose part is known.
std::optional<TokenPart> ReplyText::advance(size_t end) {
  std::optional<TokenPart> part;
  size_t used = 0;
  for (; told_.input < end && !ranges_.empty(); ++told_.input, ++used) {
    while (!ranges_.empty() && ranges_.front().end <= told_.input) ranges_.pop_front();
    if (ranges_.empty()) break;
    const chat::PartRange& range = ranges_.front();
    const int first = is_first_byte(text_[used]) ? 1 : 0;
    TokenPart found = TokenPart::kHidden;
    if (range.is_text && range.part == chat::ReplyPart::kContent) {
      found = TokenPart::kContent;
      ++told_.content;
      told_.content_characters += first;
    } else if (range.is_text && range.part == chat::ReplyPart::kReasoning) {
      found = TokenPart::kReasoning;
      told_.reasoning_characters += first;
    }
    if (!part || *part == TokenPart::kHidden) part = found;
  }
  text_.erase(0, used);
  return part;
}

void ReplyText::count_shown(bool is_end, Event& event) {
  const auto is_shown = [&](const Unshown& token) {
    if (!token.is_content) return true;
    if (!is_end) return token.end <= num_out_;
    return !stops_.matched() || token.begin < num_out_;
  };
  while (!unshown_.empty() && is_shown(unshown_.front())) {
    unshown_.pop_front();
    ++num_shown_;
  }
  event.num_shown = num_shown_;
}

}  // namespace stoker
