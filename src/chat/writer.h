// Builds a rendered prompt piece by piece: its text, and which parts of it are control tokens. What
// is not written as one stays text, whatever it spells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat/control.h"
#include "chat/conversation.h"

namespace stoker::chat {

/// A control token of a rendered prompt: text[begin, begin + spelling(control).size()).
struct ControlMark {
  size_t begin = 0;  ///< bytes
  Control control{};
};

inline constexpr std::string_view kBlockSeparator = "\n\n";

/// One owner.
class Writer {
 public:
  explicit Writer(size_t expected_bytes) { text_.reserve(expected_bytes); }

  void control(Control control);
  /// Text as it is.
  void text(std::string_view text) { text_ += text; }
  /// Text of the template, in which the spellings of <think>, </think> and the tag mark are control
  /// tokens.
  void template_text(std::string_view text);
  /// The blocks of a message, joined.
  void blocks(const std::vector<Block>& blocks);
  /// Text of the model itself, from `begin` to the end of what is written: grounding spellings in
  /// it are control tokens.
  void mark_grounding(size_t begin);

  size_t size() const { return text_.size(); }

  std::string take_text() { return std::move(text_); }
  std::vector<ControlMark> take_marks() { return std::move(marks_); }
  std::vector<size_t> take_images() { return std::move(images_); }

 private:
  std::string text_;
  std::vector<ControlMark> marks_;
  std::vector<size_t> images_;
};

}  // namespace stoker::chat
