// Failures as clients of the HTTP interface see them: status, type, message and the field at fault.
#pragma once

#include <exception>
#include <string>

#include "stoker/error.h"

namespace stoker {

/// One failure to be told to a client. A plain value.
struct HttpError {
  int status = 500;
  std::string message;  ///< for people
  std::string param;    ///< the request field at fault, such as "messages[2].content"; may be empty
  std::string type;     ///< empty: the one of the status
  int retry_after_s = 1;  ///< where is_worth_retrying(status)
};

/// The failure that an Error of the library is to a client. kCancelled is 503: the engine takes
/// nothing more.
HttpError to_http_error(const Error& error);

/// The same of what a library threw while it worked for a request: 503 for want of memory, else
/// 500.
HttpError to_http_error(const std::exception& exception);

/// "BadRequestError" for 400, and so on for each status that the server sends. Static strings.
const char* error_type(int status);

/// In whose shape a route tells failures.
enum class ErrorForm { kOpenAi, kAnthropic };

/// "Bad Request" for 400: the reason phrase of a status line. Static strings.
const char* reason_phrase(int status);

/// On one line, without a line feed: {"error": {"message", "type", "param", "code"}}, or
/// {"type": "error", "error": {"type", "message"}}.
std::string error_json(const HttpError& error, ErrorForm form = ErrorForm::kOpenAi);

/// The status with which that form tells it: Anthropic's clients know 529 for what is 503.
int told_status(const HttpError& error, ErrorForm form);

/// Whether a client should try the same request again later (the answer then has Retry-After).
bool is_worth_retrying(int status);

}  // namespace stoker
