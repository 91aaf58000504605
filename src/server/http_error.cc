#include "server/http_error.h"

#include <iterator>

#include "base/json.h"

namespace stoker {
namespace {

struct StatusRow {
  int status;
  const char* phrase;
  const char* type;  // of the error body; null where the status is no error
};

constexpr StatusRow kStatuses[] = {
    {100, "Continue", nullptr},
    {200, "OK", nullptr},
    {204, "No Content", nullptr},
    {400, "Bad Request", "BadRequestError"},
    {401, "Unauthorized", "AuthenticationError"},
    {404, "Not Found", "NotFoundError"},
    {405, "Method Not Allowed", "MethodNotAllowed"},
    {408, "Request Timeout", "RequestTimeout"},
    {413, "Content Too Large", "RequestTooLarge"},
    {415, "Unsupported Media Type", "UnsupportedMediaType"},
    {429, "Too Many Requests", "RateLimitError"},
    {431, "Request Header Fields Too Large", "RequestTooLarge"},
    {500, "Internal Server Error", "InternalServerError"},
    {503, "Service Unavailable", "ServiceUnavailable"},
    {504, "Gateway Timeout", "DeadlineExceeded"},
};

const StatusRow& row_of(int status) {
  const StatusRow* internal = nullptr;
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) return row;
    if (row.status == 500) internal = &row;
  }
  return *internal;
}

}  // namespace

HttpError to_http_error(const Error& error) {
  const int status = error_code_info(error.code).http_status;
  return {status == 0 ? 503 : status, error.message, error.field, ""};
}

const char* error_type(int status) {
  const StatusRow& row = row_of(status);
  return row.type != nullptr ? row.type : "InternalServerError";
}

const char* reason_phrase(int status) {
  return row_of(status).phrase;
}

std::string error_json(const HttpError& error) {
  Json inner = Json::object();
  inner.set("message", Json::string(error.message));
  inner.set("type", Json::string(error.type.empty() ? error_type(error.status) : error.type));
  inner.set("param", error.param.empty() ? Json() : Json::string(error.param));
  inner.set("code", Json::integer(error.status));
  Json body = Json::object();
  body.set("error", std::move(inner));
  return body.dump();
}

bool is_worth_retrying(int status) {
  return status == 429 || status == 503;
}

}  // namespace stoker
