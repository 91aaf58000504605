// What can go wrong, in one list: the codes, and how each is told to a client, a Python caller and
// a shell.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// Kinds of expected failure. Bugs are not among them: they abort where they are found.
enum class ErrorCode {
  kInvalidArgument,    ///< the caller's value is wrong, a context too long included
  kUnsupported,        ///< understood, but not built
  kNotFound,           ///< no such file, model or route
  kOverloaded,         ///< the queue is full; worth trying again
  kCancelled,          ///< the caller took the request back
  kDeadlineExceeded,   ///< the caller's time limit passed
  kResourceExhausted,  ///< no memory, descriptors or cache for it
  kPeerLost,           ///< another process of the group is gone
  kIo,                 ///< the operating system failed a read, write or map
  kCorruptData,        ///< a file is not what its format says
  kInternal,           ///< a fault of ours that is confined to one request
};

/// How a code is told outward. One table (error.cc) holds the rows; no other place maps codes.
struct ErrorCodeInfo {
  ErrorCode code;
  const char* name;         ///< "kNotFound"
  int http_status;          ///< 0: nothing is sent (kCancelled)
  const char* python_type;  ///< exception that the Python binding raises
  int exit_code;            ///< of a command that ends with it
};

/// The row of a code. A static object; safe from any thread.
const ErrorCodeInfo& error_code_info(ErrorCode code);

/// An expected failure. A plain value.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  ///< what was expected, what was found, where, and what to do; for people
  std::string
      field;  ///< the request field or option at fault, such as "messages[2].content"; may be empty

  /// The same error with "context: " in front of its message.
  [[nodiscard]] Error with(std::string_view context) const;
};

}  // namespace stoker
