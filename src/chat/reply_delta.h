// What a reply consists of, in the order in which it becomes known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::chat {

enum class DeltaKind : uint8_t {
  kReasoning,      ///< text
  kContent,        ///< text
  kCallBegin,      ///< the name of a call, whole
  kCallArguments,  ///< the next piece of its arguments' JSON
  kCallEnd,        ///< it is complete: the pieces together are a JSON object
};

struct Delta {
  DeltaKind kind{};
  int32_t call = 0;  ///< of the kinds of calls: which one, from 0
  std::string text = {};
};

enum class ReplyPart : uint8_t {
  kReasoning,
  kContent,
  kCalls,    ///< markup and what it holds
  kDropped,  ///< behind the calls, where nothing has a meaning
};

/// What became of bytes of the reply: those from the end of the range before up to `end`.
struct PartRange {
  size_t end = 0;
  ReplyPart part{};
  /// The bytes are text of deltas, one for one. Else they are markup, or line feeds around it.
  bool is_text = false;
};

/// What a step of the parser adds to.
struct ReplyOutput {
  std::vector<Delta> deltas;     ///< neighbours differ in kind or call, but for earlier output
  std::vector<PartRange> parts;  ///< likewise in part or is_text
};

/// Appends to the last delta where that is of the same kind and call.
void append_delta(std::vector<Delta>& deltas, DeltaKind kind, int32_t call, std::string_view text);

}  // namespace stoker::chat
