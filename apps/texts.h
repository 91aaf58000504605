// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

/// 14043348 -> "13.4 MiB"
std::string size_text(int64_t bytes);

/// "1:02:03" or "2:03"
std::string clock_text(double seconds);

}  // namespace stoker
