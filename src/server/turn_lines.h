// The messages of a prompt as short lines, for tests of what reads them.
#pragma once

#include <string>
#include <vector>

#include "stoker/request.h"

namespace stoker {

/// Each message in short: role, content, [reasoning], (calls) and <the id that it answers>.
inline std::vector<std::string> turn_lines(const ChatPrompt& prompt) {
  std::vector<std::string> lines;
  for (const Message& message : prompt.messages) {
    std::string line = message.role;
    for (const std::string& text : message.content) line += " " + text;
    if (!message.reasoning_content.empty()) line += " [" + message.reasoning_content + "]";
    for (const ToolCall& call : message.tool_calls)
      line += " (" + call.id + " " + call.name + " " + call.arguments + ")";
    if (!message.tool_call_id.empty()) line += " <" + message.tool_call_id + ">";
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace stoker
