// Assertions of what the code itself guarantees. Never for data: files, requests and peers get an
// Error.
#pragma once

namespace stoker {

/// Prints "file:line: CHECK(expression) failed: message" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const char* message);

}  // namespace stoker

/// In every build: for what memory safety hangs on.
#define CHECK(condition, message)                                                      \
  do {                                                                                 \
    if (!(condition)) ::stoker::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)

/// In debug builds.
#ifdef NDEBUG
#define DCHECK(condition, message) \
  do {                             \
  } while (false)
#else
#define DCHECK(condition, message) CHECK(condition, message)
#endif
