#include "catalogue/http_post.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/try.h"
#include "catalogue/http_exchange.h"

namespace stoker::catalogue {

Result<HttpAnswer> post_json(const std::string& server, const std::string& path,
                             const std::string& key, const std::string& body,
                             std::chrono::milliseconds limit) {
  TRY_ASSIGN(const Url url, parse_server(server));
  HttpExchange exchange(url.at(path.substr(path.starts_with('/') ? 1 : 0)), {});
  if (auto asked = exchange.post_json(key, body, limit); !asked) return std::move(asked).error();
  HttpAnswer answer;
  answer.status = static_cast<int>(exchange.head().result_int());
  std::array<uint8_t, 16 << 10> piece;
  while (true) {
    TRY_ASSIGN(const size_t num_read, exchange.read_some(piece));
    if (num_read == 0) return answer;
    answer.body.append(reinterpret_cast<const char*>(piece.data()), num_read);
    if (answer.body.size() > kMaxAnswerBytes) {
      return Error{
          ErrorCode::kCorruptData,
          server + ": expected an answer of at most " + std::to_string(kMaxAnswerBytes) + " bytes",
          ""};
    }
  }
}

}  // namespace stoker::catalogue
