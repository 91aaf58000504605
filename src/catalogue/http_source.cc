#include "catalogue/http_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/try.h"
#include "catalogue/http_exchange.h"

namespace stoker::catalogue {
namespace {

namespace http = boost::beast::http;

constexpr size_t kSkipBytes = 64 << 10;

// What is to be had: [offset, end) of a file.
struct Wanted {
  int64_t offset = 0;
  int64_t num_bytes = 0;  // of the whole file; 0: not known
};

Error wrong_size(const Url& url, int64_t expected, int64_t found) {
  return {ErrorCode::kCorruptData,
          url.text() + ": expected " + std::to_string(expected) + " bytes, found " +
              std::to_string(found),
          ""};
}

// "bytes 100-199/200" must be all from the offset on.
bool is_range_from(std::string_view text, const Wanted& wanted) {
  const std::string from = "bytes " + std::to_string(wanted.offset) + "-";
  if (!text.starts_with(from)) return false;
  if (wanted.num_bytes == 0) return true;
  const std::string end = std::to_string(wanted.num_bytes - 1);
  const std::string size = std::to_string(wanted.num_bytes);
  const std::string_view rest = text.substr(from.size());
  return rest == end + "/" + size || rest == end + "/*";
}

Result<void> skip(ByteSource& body, int64_t num_bytes) {
  std::array<uint8_t, kSkipBytes> bytes{};
  while (num_bytes > 0) {
    const auto n = std::min<int64_t>(num_bytes, kSkipBytes);
    if (auto read = read_exactly(body, std::span(bytes).first(static_cast<size_t>(n))); !read)
      return read;
    num_bytes -= n;
  }
  return {};
}

Result<void> check_range(HttpExchange& body, const Wanted& wanted) {
  const Url& url = body.url();
  const auto length = body.content_length();
  const bool is_partial = body.head().result_int() == 206;
  const auto range = body.head()[http::field::content_range];
  if (is_partial && !is_range_from({range.data(), range.size()}, wanted)) {
    return Error{ErrorCode::kCorruptData,
                 url.text() + ": expected bytes from " + std::to_string(wanted.offset) +
                     " on, found the range '" + std::string(range) + "'",
                 ""};
  }
  const int64_t expected = wanted.num_bytes - (is_partial ? wanted.offset : 0);
  if (wanted.num_bytes > 0 && length && *length != expected)
    return wrong_size(url, expected, *length);
  const auto coding = body.head()[http::field::content_encoding];
  if (!coding.empty() && coding != "identity") {
    return Error{
        ErrorCode::kUnsupported,
        url.text() + ": expected the bytes as they are, found the coding " + std::string(coding),
        ""};
  }
  // A server that knows no ranges sends all of it.
  return is_partial ? Result<void>() : skip(body, wanted.offset);
}

Error refused(const Url& url, unsigned status) {
  const bool can_come_back = status == 408 || status == 429 || status >= 500;
  ErrorCode code = can_come_back ? ErrorCode::kPeerLost : ErrorCode::kIo;
  if (status == 404 || status == 410) code = ErrorCode::kNotFound;
  if (status == 416) code = ErrorCode::kCorruptData;  // shorter than what is asked for
  return {code, url.text() + ": expected status 200, found " + std::to_string(status), ""};
}

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

Result<std::unique_ptr<ByteSource>> HttpSource::open(const std::string& path, int64_t offset,
                                                     int64_t num_bytes) {
  Url url = base_.at(path);
  for (int num_redirects = 0; num_redirects <= limits_.max_redirects; ++num_redirects) {
    auto body = std::make_unique<HttpExchange>(url, limits_);
    if (auto asked = body->get(offset); !asked) return std::move(asked).error();
    const unsigned status = body->head().result_int();
    if (is_redirect(status)) {
      const auto location = body->head()[http::field::location];
      TRY_ASSIGN(url, redirected(url, {location.data(), location.size()}));
      continue;
    }
    if (status != 200 && (status != 206 || offset == 0)) return refused(url, status);
    if (auto checked = check_range(*body, {offset, num_bytes}); !checked)
      return std::move(checked).error();
    return std::unique_ptr<ByteSource>(std::move(body));
  }
  return Error{ErrorCode::kIo,
               base_.at(path).text() + ": expected at most " +
                   std::to_string(limits_.max_redirects) + " redirects, found more",
               ""};
}

}  // namespace stoker::catalogue
