#include "chat/reply_parser.h"

#include <array>
#include <utility>
#include <vector>

#include "chat/control.h"

namespace stoker::chat {
namespace {

constexpr std::string_view kAsciiMark = "|DSML|";  // seen in place of the tag mark

// The markers of each state. Those with two sets have one for a block with ASCII bars, or without
// and with calls.
struct StateMarkers {
  std::array<MarkerSet, 2> reasoning_start;
  std::array<MarkerSet, 2> reasoning;
  std::array<MarkerSet, 2> content;
  MarkerSet content_or_ascii;
  std::array<MarkerSet, 2> calls;
  MarkerSet quote;
  std::array<MarkerSet, 2> arguments;
  MarkerSet type;
  std::array<MarkerSet, 2> value;
  std::array<MarkerSet, 2> done;
  MarkerSet none;
};

std::string tag(std::string_view opening, std::string_view mark, std::string_view rest = "") {
  return std::string(opening).append(mark).append(rest);
}

std::vector<Marker> joined(std::vector<Marker> markers, const std::vector<Marker>& more) {
  markers.insert(markers.end(), more.begin(), more.end());
  return markers;
}

// Spaced as the model was trained, or as its predecessors wrote them.
std::vector<Marker> ends_of_calls(std::string_view mark) {
  std::vector<Marker> markers;
  for (const char* name : {"calls>", "tool_calls>", "function_calls>"}) {
    markers.push_back({tag("</", mark, name), Mark::kEndOfCalls});
    markers.push_back({tag("</", mark, std::string(" ") + name), Mark::kEndOfCalls});
  }
  return markers;
}

StateMarkers make_state_markers() {
  using List = std::vector<Marker>;
  const std::string_view bars = spelling(Control::kDsml);
  const List think = {{std::string(spelling(Control::kThink)), Mark::kThink}};
  const List end_of_think = {{std::string(spelling(Control::kEndOfThink)), Mark::kEndOfThink}};
  const List block = {{tag("<", bars), Mark::kBlock}};
  const List ascii_block = {{tag("<", kAsciiMark), Mark::kAsciiBlock}};
  const List invoke = {{"invoke name=\"", Mark::kInvoke}};
  const List parameter = {{"parameter name=\"", Mark::kParameter}};
  const List end_of_tag = {{tag("</", bars), Mark::kEndOfTag}};
  const List any_end_of_tag = joined(end_of_tag, {{tag("</", kAsciiMark), Mark::kEndOfTag}});
  const List calls = joined(invoke, ends_of_calls(bars));
  const List either = joined(end_of_think, block);
  return {
      {MarkerSet(joined(think, end_of_think)), MarkerSet(joined(think, either))},
      {MarkerSet(end_of_think), MarkerSet(either)},
      {MarkerSet(end_of_think), MarkerSet(either)},
      MarkerSet(joined(either, ascii_block)),
      {MarkerSet(calls), MarkerSet(joined(calls, ends_of_calls(kAsciiMark)))},
      MarkerSet({{"\"", Mark::kQuote}}),
      {MarkerSet(joined(parameter, end_of_tag)), MarkerSet(joined(parameter, any_end_of_tag))},
      MarkerSet({{"true\">", Mark::kIsText}, {"false\">", Mark::kIsValue}}),
      {MarkerSet(end_of_tag), MarkerSet(any_end_of_tag)},
      {MarkerSet(block), MarkerSet(joined(block, ascii_block))},
      MarkerSet({}),
  };
}

const StateMarkers& state_markers() {
  static const StateMarkers markers = make_state_markers();
  return markers;
}

}  // namespace

ReplyParser::ReplyParser(const ReplyOptions& options)
    : options_(options), calls_(options.only_tool), set_(nullptr) {
  is_lead_ =
      options.start == ReplyStart::kReasoningLead || options.start == ReplyStart::kContentLead;
  switch (options.start) {
    case ReplyStart::kReasoningLead:
    case ReplyStart::kReasoning:
      state_ = State::kReasoning;
      break;
    case ReplyStart::kContentLead:
    case ReplyStart::kContent:
      state_ = State::kContent;
      break;
    case ReplyStart::kCalls:
      state_ = State::kCalls;
      break;
  }
  set_ = &markers();
}

// The markers that may begin at the next byte.
const MarkerSet& ReplyParser::markers() const {
  const StateMarkers& all = state_markers();
  switch (state_) {
    case State::kReasoning:
      return (is_start_ && is_lead_ ? all.reasoning_start : all.reasoning)[options_.has_calls];
    case State::kContent:
      return options_.has_calls && (is_lead_ || num_line_feeds_ >= 2)
                 ? all.content_or_ascii
                 : all.content[options_.has_calls];
    case State::kCalls:
      return all.calls[is_ascii_block_];
    case State::kName:
    case State::kKey:
      return all.quote;
    case State::kArguments:
      return all.arguments[is_ascii_block_];
    case State::kType:
      return all.type;
    case State::kText:
    case State::kValue:
      return all.value[is_ascii_block_];
    case State::kDone:
      break;
  }
  return options_.one_call && calls_.num_calls() > 0 ? all.none : all.done[is_ascii_block_];
}

// Line feeds that belong to the markup if it follows.
bool ReplyParser::holds_line_feeds() const {
  return state_ == State::kReasoning || (state_ == State::kContent && options_.has_calls);
}

bool ReplyParser::is_in_calls() const {
  return part() == ReplyPart::kCalls;
}

ReplyPart ReplyParser::part() const {
  switch (state_) {
    case State::kReasoning:
      return ReplyPart::kReasoning;
    case State::kContent:
      return ReplyPart::kContent;
    case State::kDone:
      return ReplyPart::kDropped;
    default:
      return ReplyPart::kCalls;
  }
}

void ReplyParser::push(std::string_view text, ReplyOutput& out) {
  while (!text.empty()) {
    if (node_ == MarkerSet::kRoot) {
      set_ = &markers();
      const size_t num_plain = set_->num_plain(text);
      if (num_plain > 0) {
        take_plain(text.substr(0, num_plain), out);
        text.remove_prefix(num_plain);
        continue;
      }
    }
    step(text.front(), out);
    text.remove_prefix(1);
  }
}

void ReplyParser::step(char byte, ReplyOutput& out) {
  MarkerSet::Node next = set_->child(node_, byte);
  while (next == MarkerSet::kNone && node_ != MarkerSet::kRoot) {
    // What was held back begins no marker; a shorter end of it may.
    const MarkerSet::Node shorter = set_->fallback(node_);
    const std::string_view held = set_->text(node_);
    take_plain(held.substr(0, held.size() - set_->text(shorter).size()), out);
    node_ = shorter;
    if (node_ == MarkerSet::kRoot) set_ = &markers();
    next = set_->child(node_, byte);
  }
  if (next == MarkerSet::kNone) {
    if (byte == '\n') {
      take_line_feed(out);
    } else {
      take_plain({&byte, 1}, out);
    }
    return;
  }
  node_ = next;
  const std::string_view held = set_->text(node_);
  if (const Mark mark = set_->mark(node_); mark != Mark::kNone) {
    node_ = MarkerSet::kRoot;
    take_marker(mark, held, out);
  } else if (state_ == State::kContent && held == "</") {
    release_line_feeds(out);  // only in front of a block they could be markup
  }
}

// Text without line feeds, in front of which those held back are text, too.
void ReplyParser::take_plain(std::string_view text, ReplyOutput& out) {
  release_line_feeds(out);
  release(text, out);
  is_lead_ = false;
}

void ReplyParser::take_line_feed(ReplyOutput& out) {
  is_start_ = false;
  if (is_lead_ && !is_in_calls()) {
    settle(1, part(), false, out);
  } else if (holds_line_feeds()) {
    ++num_line_feeds_;
  } else {
    release("\n", out);
  }
}

// Text that is no markup, to where the state says.
void ReplyParser::release(std::string_view text, ReplyOutput& out) {
  is_start_ = false;
  if (is_in_calls()) raw_ += text;
  switch (state_) {
    case State::kReasoning:
      append_delta(out.deltas, DeltaKind::kReasoning, 0, text);
      break;
    case State::kContent:
      append_delta(out.deltas, DeltaKind::kContent, 0, text);
      break;
    case State::kName:
      calls_.add_name(text);
      break;
    case State::kKey:
      calls_.add_key(text, out.deltas);
      break;
    case State::kText:
      calls_.add_text(text, out.deltas);
      break;
    case State::kValue:
      calls_.add_value(text);
      break;
    case State::kCalls:
    case State::kArguments:
    case State::kType:
    case State::kDone:
      break;
  }
  settle(text.size(), part(), state_ == State::kReasoning || state_ == State::kContent, out);
}

void ReplyParser::release_line_feeds(ReplyOutput& out) {
  if (num_line_feeds_ > 0) release(std::string(std::exchange(num_line_feeds_, 0), '\n'), out);
}

void ReplyParser::settle(size_t num_bytes, ReplyPart part, bool is_text, ReplyOutput& out) {
  num_settled_ += num_bytes;
  if (out.parts.empty() || out.parts.back().part != part || out.parts.back().is_text != is_text) {
    out.parts.push_back({0, part, is_text});
  }
  out.parts.back().end = num_settled_;
}

void ReplyParser::take_marker(Mark mark, std::string_view text, ReplyOutput& out) {
  is_start_ = false;
  switch (mark) {
    case Mark::kThink:
    case Mark::kEndOfThink:
      take_thinking_marker(mark, text.size(), out);
      break;
    case Mark::kBlock:
    case Mark::kAsciiBlock:
      take_block_marker(mark, text, out);
      break;
    default:
      raw_ += text;
      settle(text.size(), ReplyPart::kCalls, false, out);
      take_call_marker(mark, out);
      break;
  }
}

// In content </think> is a stray: it goes, and what is around it stays.
void ReplyParser::take_thinking_marker(Mark mark, size_t size, ReplyOutput& out) {
  settle(std::exchange(num_line_feeds_, 0) + size, part(), false, out);
  if (mark == Mark::kThink || state_ == State::kContent) return;
  state_ = State::kContent;
  is_lead_ = true;
}

void ReplyParser::take_block_marker(Mark mark, std::string_view text, ReplyOutput& out) {
  raw_.assign(num_line_feeds_, '\n');
  raw_ += text;
  settle(std::exchange(num_line_feeds_, 0) + text.size(), ReplyPart::kCalls, false, out);
  state_ = State::kCalls;
  is_ascii_block_ = mark == Mark::kAsciiBlock;
  has_closed_call_ = false;
}

void ReplyParser::take_call_marker(Mark mark, ReplyOutput& out) {
  switch (mark) {
    case Mark::kInvoke:
      state_ = State::kName;
      break;
    case Mark::kEndOfCalls:
      state_ = State::kDone;
      break;
    case Mark::kQuote:
      take_quote(out);
      break;
    case Mark::kParameter:
      calls_.begin_parameter(out.deltas);
      state_ = State::kKey;
      break;
    case Mark::kIsText:
      calls_.begin_text(out.deltas);
      state_ = State::kText;
      break;
    case Mark::kIsValue:
      state_ = State::kValue;
      break;
    case Mark::kEndOfTag:
      take_end_of_tag(out);
      break;
    default:
      break;
  }
}

void ReplyParser::take_quote(ReplyOutput& out) {
  if (state_ == State::kName) {
    calls_.begin(out.deltas);
    state_ = State::kArguments;
  } else {
    calls_.end_key(out.deltas);
    state_ = State::kType;
  }
}

void ReplyParser::take_end_of_tag(ReplyOutput& out) {
  if (state_ == State::kArguments) return end_call(out);
  if (state_ == State::kText) {
    calls_.end_text(out.deltas);
  } else {
    calls_.end_value(out.deltas);
  }
  state_ = State::kArguments;
}

void ReplyParser::end_call(ReplyOutput& out) {
  calls_.end(out.deltas);
  raw_.clear();
  has_closed_call_ = true;
  state_ = options_.one_call && calls_.num_calls() > 0 ? State::kDone : State::kCalls;
}

// What was held back can become no marker any more.
void ReplyParser::release_held(ReplyOutput& out) {
  const std::string_view held = set_->text(std::exchange(node_, MarkerSet::kRoot));
  release_line_feeds(out);
  if (held.empty()) return;
  if (!is_in_calls()) return release(held, out);
  raw_ += held;  // half a tag: no text of a parameter
  settle(held.size(), ReplyPart::kCalls, false, out);
}

ReplyEnding ReplyParser::finish(ReplyEnd end, ReplyOutput& out) {
  release_held(out);
  // Without a parameter more may have been to come; behind one, the call is whole but for its end.
  if (state_ == State::kArguments && calls_.has_parameters()) end_call(out);
  const bool is_whole = !is_in_calls() || state_ == State::kCalls;
  ReplyEnding ending{calls_.num_calls(), !is_whole};
  if (is_whole || end == ReplyEnd::kLength) return ending;
  if (has_closed_call_) raw_.erase(0, raw_.find('<'));  // the rest of the last call's end
  ending.unfinished = std::move(raw_);
  return ending;
}

}  // namespace stoker::chat
