// JSON as the model was trained to read it in prompts: what Python's json.dumps writes with
// ensure_ascii=False, byte for byte.
#pragma once

#include <string>

#include "base/json.h"

namespace stoker::chat {

/// Appends the value: separators ", " and ": ", members in their order, integers unchanged (but -0
/// as 0), other numbers in the shortest form that reads back the same, spelled as Python does
/// (1.0, 1e-07, 1e+16). Recursion is as deep as the value, which Json::parse bounds.
void append_python_json(std::string& out, const Json& value);

}  // namespace stoker::chat
