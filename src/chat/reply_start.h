// In which state a reply begins: what the prompt leaves open for the model, and the parser of the
// reply takes up.
#pragma once

#include <cstdint>

namespace stoker::chat {

/// Lead: line feeds in front of the first text are the template's, not the text's.
enum class ReplyStart : uint8_t {
  kReasoningLead,  ///< behind <think>
  kReasoning,      ///< within reasoning that is continued
  kContentLead,    ///< behind </think>
  kContent,        ///< within content that is continued
  kCalls,          ///< within a block of calls that the prompt opened
};

}  // namespace stoker::chat
