// The tokens of one answer as they come, to text in its parts: reasoning, content, calls. Content,
// or all of it, is cut at stop strings. A token is told once it is known to what it belongs, and
// shown once its text is out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "api/stop_matcher.h"
#include "chat/reply_parser.h"
#include "stoker/events.h"
#include "stoker/request.h"
#include "tokenizer/tokenizer.h"

namespace stoker {

/// One owner.
class ReplyText {
 public:
  struct Stops {
    std::vector<std::string> strings;
    bool are_shown = false;   ///< in the text
    bool everywhere = false;  ///< they are looked for in the whole reply, as it was written
  };

  /// Borrows the tokenizer; null: nothing is text.
  ReplyText(const Tokenizer* tokenizer, const ReplyFormat& reply, const Stops& stops);

  /// The next token. is_hidden: it has no text, whatever it stands for. may_stop: stop strings that
  /// end in its text count. logprobs: if they are told. Nothing may be pushed once it is over.
  void push(int32_t token, bool is_hidden, bool may_stop, std::optional<PositionLogprobs> logprobs,
            Event& event);

  /// No more tokens come: what was held back, unless it is over.
  void finish(chat::ReplyEnd end, bool may_stop, Event& event);

  /// After each event's last push or finish: which tokens are shown.
  void count_shown(bool is_end, Event& event);

  /// A stop string was met, or the calls are over and nothing of meaning follows.
  bool is_over() const { return stops_.matched() || are_calls_over_; }
  const std::optional<std::string>& matched() const { return stops_.matched(); }
  bool are_calls_over() const { return are_calls_over_; }

  int32_t num_calls() const { return parser_ ? parser_->num_calls() : 0; }  ///< whole ones
  int32_t num_reasoning_tokens() const { return num_reasoning_tokens_; }
  const std::string& unfinished_call() const { return unfinished_; }  ///< Finish::unfinished_call

 private:
  // A token that is not told yet.
  struct Untold {
    int32_t id;
    bool is_hidden;
    size_t begin, end;  // in the text of all: bytes before it, and where it is whole
    std::optional<PositionLogprobs> logprobs;
  };
  // A told one whose text is not out: bytes of content before it, and up to its end.
  struct Unshown {
    bool is_content;
    size_t begin, end;
  };
  // Up to a byte of the text: how much of it is content, and what is counted in characters.
  struct Counts {
    size_t input = 0;
    size_t content = 0;
    int64_t content_characters = 0;
    int64_t reasoning_characters = 0;
  };

  void take_text(std::string_view text, bool may_stop, Event& event);
  void take_output(bool may_stop, Event& event);
  void take_content(const std::string& text, bool may_stop, Event& event);
  void tell(bool is_all, Event& event);
  TokenDetail describe(const Untold& token);
  std::optional<TokenPart> advance(size_t end);
  size_t num_settled() const { return parser_ ? parser_->num_settled() : num_made_; }

  std::optional<Detokenizer> detokenizer_;
  std::optional<chat::ReplyParser> parser_;  // of chats
  StopMatcher stops_;
  chat::ReplyOutput output_;  // kept for its memory
  std::deque<chat::PartRange> ranges_;
  std::deque<Untold> untold_;
  std::deque<Unshown> unshown_;
  std::string text_;     // from told_.input on
  size_t num_made_ = 0;  // bytes of text so far
  size_t num_out_ = 0;   // of content, in events
  Counts told_;          // up to the last told token's end
  Counts told_before_;   // and to its beginning
  int32_t num_shown_ = 0;
  int32_t num_reasoning_tokens_ = 0;
  int32_t num_after_calls_ = 0;
  bool one_call_ = false;
  bool stops_everywhere_ = false;
  bool are_calls_over_ = false;
  std::string unfinished_;
};

}  // namespace stoker
