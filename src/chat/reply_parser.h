// A reply to its reasoning, content and calls, as its text comes. What can still become markup is
// held back, exactly: after each byte everything else is out, and nothing depends on how the text
// was cut. Token ids, stop strings and finish reasons are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/call_builder.h"
#include "chat/marker_set.h"
#include "chat/reply_delta.h"
#include "chat/reply_start.h"

namespace stoker::chat {

struct ReplyOptions {
  ReplyStart start = ReplyStart::kContentLead;
  bool has_calls = false;  ///< look for calls; without tools their markup is text like any other
  bool one_call = false;   ///< what follows the first call is dropped
  std::optional<std::string> only_tool = {};  ///< calls of other names are dropped
};

/// Why no more text comes. A stop token is an end of text, too.
enum class ReplyEnd { kEndOfText, kLength };

/// What the deltas do not tell.
struct ReplyEnding {
  int32_t num_calls = 0;  ///< complete ones
  /// The last call was cut off in its name or in a parameter. It has no kCallEnd, and if its name
  /// was cut off no kCallBegin.
  bool is_truncated = false;
  /// If that was at an end of text: the markup of this call, with the opening of the block in front
  /// of the first. Who has not given out the call's deltas puts it behind the content, so that
  /// nothing vanishes.
  std::string unfinished = {};
};

/// Parses one reply. One owner. Time is linear in the text. Damaged markup is no error: all of it
/// becomes deltas, or is accounted for as kCalls or kDropped.
class ReplyParser {
 public:
  explicit ReplyParser(const ReplyOptions& options);

  /// The next text. Well-formed UTF-8 as a whole; where it is cut between characters, so are the
  /// deltas. Added tokens that mark the reply (<think>, </think> and the tag mark) are in it as
  /// their spellings, hidden ones are not. Adds to `out` what became known.
  void push(std::string_view text, ReplyOutput& out);

  /// No more text comes. Nothing may be called after it.
  ReplyEnding finish(ReplyEnd end, ReplyOutput& out);

  /// Bytes of the text whose part is known: the end of the last PartRange given out.
  size_t num_settled() const { return num_settled_; }
  int32_t num_calls() const { return calls_.num_calls(); }  ///< complete ones so far
  bool is_reasoning() const { return state_ == State::kReasoning; }
  /// The calls are over: nothing but more calls can be of interest, with one_call not even these.
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State : uint8_t {
    kReasoning,
    kContent,
    kCalls,
    kName,
    kArguments,
    kKey,
    kType,
    kText,
    kValue,
    kDone,
  };

  const MarkerSet& markers() const;
  bool holds_line_feeds() const;
  bool is_in_calls() const;
  ReplyPart part() const;

  void step(char byte, ReplyOutput& out);
  void take_plain(std::string_view text, ReplyOutput& out);
  void take_line_feed(ReplyOutput& out);
  void release(std::string_view text, ReplyOutput& out);
  void release_held(ReplyOutput& out);
  void release_line_feeds(ReplyOutput& out);
  void settle(size_t num_bytes, ReplyPart part, bool is_text, ReplyOutput& out);

  void take_marker(Mark mark, std::string_view text, ReplyOutput& out);
  void take_thinking_marker(Mark mark, size_t size, ReplyOutput& out);
  void take_block_marker(Mark mark, std::string_view text, ReplyOutput& out);
  void take_call_marker(Mark mark, ReplyOutput& out);
  void take_quote(ReplyOutput& out);
  void take_end_of_tag(ReplyOutput& out);
  void end_call(ReplyOutput& out);

  const ReplyOptions options_;
  CallBuilder calls_;
  State state_{};
  bool is_lead_ = false;          // line feeds are dropped until there is text
  bool is_start_ = true;          // no byte has been taken
  bool is_ascii_block_ = false;   // the block was opened with ASCII bars
  bool has_closed_call_ = false;  // in this block
  const MarkerSet* set_;          // of node_
  MarkerSet::Node node_ = MarkerSet::kRoot;
  size_t num_line_feeds_ = 0;  // held back in front of node_
  size_t num_settled_ = 0;
  std::string raw_;  // of the block since its beginning or its last whole call
};

}  // namespace stoker::chat
