// Where the library's log lines go. The library itself never prints.
#pragma once

#include <functional>
#include <string_view>

namespace stoker {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Receives one line of "key=value" words without its line feed. Called from any thread of the
/// library, one call at a time; must not block for long and must not call the library. Lines above
/// kDebug hold no prompt or output text.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

}  // namespace stoker
