// The control tokens of the chat format, known here by their spelling; their ids are the
// tokenizer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker::chat {

enum class Control : uint8_t {
  // Written by the template; every tokenizer of the format has them.
  kBeginOfText,
  kEndOfText,
  kSystem,
  kUser,
  kAssistant,
  kLatestReminder,
  kThink,
  kEndOfThink,
  kDsml,   // the bars and letters of the tags around calls, without angle brackets
  kImage,  // where the vision stage puts an image
  // Grounding: written by the model, so its old answers hold them; a tokenizer may lack them.
  kRef,
  kEndOfRef,
  kBox,
  kEndOfBox,
  kPoint,
  kEndOfPoint,
  kPolygon,
  kEndOfPolygon,
};

/// In the order of Control. The bars are U+FF5C, the low lines U+2581.
inline constexpr std::array<std::string_view, 18> kControlSpellings = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜latest_reminder｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜deepseek_image｜>",
    "<｜ref｜>",
    "<｜/ref｜>",
    "<｜box｜>",
    "<｜/box｜>",
    "<｜point｜>",
    "<｜/point｜>",
    "<｜polygon｜>",
    "<｜/polygon｜>",
};

inline constexpr size_t kFirstGrounding = static_cast<size_t>(Control::kRef);

constexpr std::string_view spelling(Control control) {
  return kControlSpellings[static_cast<size_t>(control)];
}

}  // namespace stoker::chat
