#include "server/http_error.h"

#include <new>
#include <utility>

#include "base/json.h"
#include "server/retry_after.h"

namespace stoker {
namespace {

constexpr int kOverloaded = 529;  // of no standard

struct StatusRow {
  int status;
  const char* phrase;
  const char* type;            // of the error body; null where the status is no error
  const char* anthropic_type;  // the same, of Anthropic's
};

constexpr StatusRow kStatuses[] = {
    {100, "Continue", nullptr, nullptr},
    {200, "OK", nullptr, nullptr},
    {204, "No Content", nullptr, nullptr},
    {400, "Bad Request", "BadRequestError", "invalid_request_error"},
    {401, "Unauthorized", "AuthenticationError", "authentication_error"},
    {404, "Not Found", "NotFoundError", "not_found_error"},
    {405, "Method Not Allowed", "MethodNotAllowed", "invalid_request_error"},
    {408, "Request Timeout", "RequestTimeout", "timeout_error"},
    {413, "Content Too Large", "RequestTooLarge", "request_too_large"},
    {415, "Unsupported Media Type", "UnsupportedMediaType", "invalid_request_error"},
    {429, "Too Many Requests", "RateLimitError", "rate_limit_error"},
    {431, "Request Header Fields Too Large", "RequestTooLarge", "request_too_large"},
    {500, "Internal Server Error", "InternalServerError", "api_error"},
    {503, "Service Unavailable", "ServiceUnavailable", "overloaded_error"},
    {504, "Gateway Timeout", "DeadlineExceeded", "timeout_error"},
    {kOverloaded, "Overloaded", "ServiceUnavailable", "overloaded_error"},
};

const StatusRow& row_of(int status) {
  const StatusRow* internal = nullptr;
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) return row;
    if (row.status == 500) internal = &row;
  }
  return *internal;
}

std::string anthropic_json(const HttpError& error) {
  const char* type = row_of(error.status).anthropic_type;
  Json inner = Json::object();
  inner.set("type", Json::string(type != nullptr ? type : "api_error"));
  inner.set("message", Json::string(error.message));
  Json body = Json::object();
  body.set("type", Json::string("error"));
  body.set("error", std::move(inner));
  return body.dump();
}

}  // namespace

HttpError to_http_error(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return {503, "no memory for the request", "", ""};
  return {500, exception.what(), "", ""};
}

HttpError to_http_error(const Error& error) {
  const int status = error_code_info(error.code).http_status;
  if (status == 0) return {503, error.message, error.field, "", kLongRetrySeconds};
  return {status, error.message, error.field, ""};
}

const char* error_type(int status) {
  const StatusRow& row = row_of(status);
  return row.type != nullptr ? row.type : "InternalServerError";
}

const char* reason_phrase(int status) {
  return row_of(status).phrase;
}

std::string error_json(const HttpError& error, ErrorForm form) {
  if (form == ErrorForm::kAnthropic) return anthropic_json(error);
  Json inner = Json::object();
  inner.set("message", Json::string(error.message));
  inner.set("type", Json::string(error.type.empty() ? error_type(error.status) : error.type));
  inner.set("param", error.param.empty() ? Json() : Json::string(error.param));
  inner.set("code", Json::integer(error.status));
  Json body = Json::object();
  body.set("error", std::move(inner));
  return body.dump();
}

int told_status(const HttpError& error, ErrorForm form) {
  return form == ErrorForm::kAnthropic && error.status == 503 ? kOverloaded : error.status;
}

bool is_worth_retrying(int status) {
  return status == 429 || status == 503 || status == kOverloaded;
}

}  // namespace stoker
