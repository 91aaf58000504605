// A catalogue on a server, by HTTP/1.1 GET: with TLS the server's certificate is checked against
// the system's authorities ($SSL_CERT_FILE as OpenSSL has it). Redirects are followed to https or
// within the same host. Every wait has a limit, and so has every size.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "catalogue/source.h"
#include "catalogue/url.h"

namespace stoker::catalogue {

struct HttpLimits {
  std::chrono::milliseconds connect{20'000};  ///< for a connection with TLS, and for a head
  std::chrono::milliseconds idle{30'000};     ///< between bytes of a body
  std::chrono::milliseconds window{60'000};   ///< in which at least window_bytes come
  int64_t window_bytes = 64 << 10;
  int max_redirects = 5;
};

class HttpSource : public Source {
 public:
  explicit HttpSource(Url base, HttpLimits limits = {}) : base_(std::move(base)), limits_(limits) {}

  Result<std::unique_ptr<ByteSource>> open(const std::string& path, int64_t offset,
                                           int64_t num_bytes) override;

 private:
  const Url base_;
  const HttpLimits limits_;
};

}  // namespace stoker::catalogue
