#include "server/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

#include "base/check.h"
#include "server/http_text.h"

namespace stoker {
namespace {

namespace http = boost::beast::http;
using BoostError = boost::system::error_code;
using BoostText = boost::core::string_view;

// Of "Bearer KEY", in any spelling of the first word; else empty.
std::string bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower_case(authorization.substr(0, kScheme.size())) != kScheme) return {};
  const size_t begin = authorization.find_first_not_of(' ', kScheme.size());
  return begin == std::string_view::npos ? std::string() : std::string(authorization.substr(begin));
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// A target in origin form ("/v1/models?x=1") of one in that or in absolute form
// ("http://host/v1/models"), without its fragment.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.substr(0, scheme.size()) != scheme) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  return target.substr(0, target.find('#'));
}

std::string_view view(BoostText text) {
  return {text.data(), text.size()};
}

}  // namespace

// Keeps the parts of a request that the server reads.
class HttpParser::Reader : public http::basic_parser<true> {
 public:
  explicit Reader(const HttpLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<uint32_t>(limits.max_header_bytes));
    body_limit(limits.max_body_bytes);
  }

  size_t max_body_bytes() const {
    const auto own =
        limits_.max_body_bytes_of ? limits_.max_body_bytes_of(request.path) : std::nullopt;
    return own.value_or(limits_.max_body_bytes);
  }

  HttpRequest request;

 private:
  void on_request_impl(http::verb /*method*/, BoostText method, BoostText target, int version,
                       BoostError& /*error*/) override {
    request.method = view(method);
    const std::string_view origin = origin_form(view(target));
    const size_t path_bytes = std::min(origin.find('?'), origin.size());
    request.path = origin.substr(0, path_bytes);
    request.query = origin.substr(std::min(path_bytes + 1, origin.size()));
    request.version = version;
    body_limit(max_body_bytes());
  }

  void on_response_impl(int /*code*/, BoostText /*reason*/, int /*version*/,
                        BoostError& /*error*/) override {}

  void on_field_impl(http::field name, BoostText name_text, BoostText value_text,
                     BoostError& error) override {
    const std::string_view value = view(value_text);
    if (++num_fields_ > limits_.max_header_fields) error = http::error::header_limit;
    if (name == http::field::content_type) {
      const size_t type_bytes = std::min(value.find(';'), value.size());
      request.content_type = lower_case(trim(value.substr(0, type_bytes)));
      request.content_parameters = value.substr(std::min(type_bytes + 1, value.size()));
    } else if (name == http::field::content_encoding) {
      request.content_encoding = lower_case(trim(value));
    } else if (name == http::field::expect) {
      request.expects_continue = lower_case(trim(value)) == "100-continue";
    } else if (name == http::field::transfer_encoding) {
      if (lower_case(trim(value)) != "chunked") error = http::error::bad_transfer_encoding;
    } else if (name == http::field::accept) {
      request.accept.append(request.accept.empty() ? "" : ",").append(value);
    } else if (name == http::field::origin) {
      request.origin = trim(value);
    } else if (name == http::field::access_control_request_headers) {
      request.wanted_headers = trim(value);
    } else if (name == http::field::authorization) {
      bearer_key_ = bearer_key(trim(value));
    } else if (lower_case(view(name_text)) == "x-request-id") {
      request.request_id = is_request_id(trim(value)) ? trim(value) : "";
    } else if (lower_case(view(name_text)) == "x-api-key") {
      api_key_ = trim(value);
    }
  }

  void on_header_impl(BoostError& /*error*/) override {
    request.keep_alive = keep_alive();
    request.key = bearer_key_.empty() ? api_key_ : bearer_key_;
  }

  void on_body_init_impl(const boost::optional<uint64_t>& /*length*/,
                         BoostError& /*error*/) override {}

  size_t on_body_impl(BoostText text, BoostError& /*error*/) override {
    request.body.append(text.data(), text.size());
    return text.size();
  }

  void on_chunk_header_impl(uint64_t /*size*/, BoostText /*extensions*/,
                            BoostError& /*error*/) override {}

  size_t on_chunk_body_impl(uint64_t /*remain*/, BoostText text, BoostError& /*error*/) override {
    request.body.append(text.data(), text.size());
    return text.size();
  }

  void on_finish_impl(BoostError& /*error*/) override {}

  const HttpLimits& limits_;
  size_t num_fields_ = 0;
  std::string bearer_key_;
  std::string api_key_;
};

HttpParser::HttpParser(const HttpLimits& limits) : limits_(limits) {
  reset();
}

HttpParser::~HttpParser() = default;

size_t HttpParser::feed(std::string_view input) {
  CHECK(state_ == State::kHead || state_ == State::kBody, "there is a request to be read");
  has_started_ = has_started_ || !input.empty();
  size_t num_used = 0;
  while (num_used < input.size() && !reader_->is_done()) {
    BoostError error;
    const std::string_view rest = input.substr(num_used);
    num_used += reader_->put({rest.data(), rest.size()}, error);
    if (error == http::error::need_more) break;
    if (error) {
      fail_as(error);
      return num_used;
    }
  }
  if (reader_->is_done()) {
    state_ = State::kDone;
  } else if (input.size() - num_used > limits_.max_header_bytes) {
    fail(431, "a part of the request's framing is longer than " +
                  std::to_string(limits_.max_header_bytes) + " bytes");
  } else if (reader_->is_header_done()) {
    state_ = State::kBody;
  }
  return num_used;
}

HttpRequest& HttpParser::request() {
  return reader_->request;
}

const HttpRequest& HttpParser::request() const {
  return reader_->request;
}

void HttpParser::reset() {
  reader_ = std::make_unique<Reader>(limits_);
  state_ = State::kHead;
  has_started_ = false;
  error_ = {};
}

void HttpParser::fail(int status, std::string message) {
  state_ = State::kFailed;
  error_ = {status, std::move(message), "", ""};
}

void HttpParser::fail_as(const boost::system::error_code& error) {
  if (error == http::error::header_limit) {
    fail(431, "the request's head is longer than " + std::to_string(limits_.max_header_bytes) +
                  " bytes, or has more than " + std::to_string(limits_.max_header_fields) +
                  " fields");
  } else if (error == http::error::body_limit) {
    fail(413, "the request's body is longer than " + std::to_string(reader_->max_body_bytes()) +
                  " bytes");
  } else {
    fail(400, "not an HTTP/1.1 request: " + error.message());
  }
}

}  // namespace stoker
