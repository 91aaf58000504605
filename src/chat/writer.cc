#include "chat/writer.h"

#include <array>
#include <variant>

namespace stoker::chat {

void Writer::control(Control control) {
  marks_.push_back({text_.size(), control});
  text_ += spelling(control);
}

void Writer::template_text(std::string_view text) {
  constexpr std::array<Control, 3> kInTemplate = {Control::kThink, Control::kEndOfThink,
                                                  Control::kDsml};
  constexpr std::string_view kFirstBytes = "<\xEF";  // all three begin with one of them
  size_t written = 0;
  for (size_t at = text.find_first_of(kFirstBytes); at != std::string_view::npos;
       at = text.find_first_of(kFirstBytes, at + 1)) {
    for (const Control candidate : kInTemplate) {
      if (!text.substr(at).starts_with(spelling(candidate))) continue;
      text_ += text.substr(written, at - written);
      control(candidate);
      written = at + spelling(candidate).size();
    }
  }
  text_ += text.substr(written);
}

void Writer::blocks(const std::vector<Block>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) text(kBlockSeparator);
    if (const auto* image = std::get_if<Image>(&blocks[i])) {
      images_.push_back(image->index);
      control(Control::kImage);
    } else if (const auto* block = std::get_if<std::string>(&blocks[i])) {
      text(*block);
    }
  }
}

void Writer::mark_grounding(size_t begin) {
  constexpr std::string_view kOpening = "<｜";  // all eight begin like this
  const std::string_view all = text_;
  for (size_t at = all.find(kOpening, begin); at != std::string_view::npos;
       at = all.find(kOpening, at + kOpening.size())) {
    for (size_t i = kFirstGrounding; i < kControlSpellings.size(); ++i) {
      if (all.substr(at).starts_with(kControlSpellings[i])) {
        marks_.push_back({at, static_cast<Control>(i)});
      }
    }
  }
}

}  // namespace stoker::chat
