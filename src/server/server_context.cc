#include "server/server_context.h"

#include <chrono>

#include "base/json.h"

namespace stoker {
namespace {

constexpr size_t kReadBufferBytes = size_t{64} << 10;
constexpr size_t kMaxLoggedFields = 1024;  // names that are remembered; later ones are not logged

ServerOptions with_defaults(ServerOptions options, const Engine& engine) {
  if (options.served_model_names.empty()) {
    options.served_model_names.push_back(engine.model().name);
  }
  if (options.num_request_threads < 1) options.num_request_threads = 1;
  return options;
}

}  // namespace

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

ServerContext::ServerContext(Engine& engine_in, ServerOptions options_in)
    : engine(engine_in),
      options(with_defaults(std::move(options_in), engine_in)),
      created(unix_seconds()),
      workers(static_cast<size_t>(options.num_request_threads)),
      read_buffer(kReadBufferBytes) {
  std::random_device source;
  std::seed_seq seed{source(), source(), source(), source()};
  random_.seed(seed);
}

void ServerContext::log(LogLevel level, const std::string& line) const {
  if (options.log) options.log(level, line);
}

void ServerContext::log_unknown_fields(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (logged_fields_.size() >= kMaxLoggedFields || !logged_fields_.insert(name).second) continue;
    log(LogLevel::kWarning, "request field ignored name=" + json_quote(name));
  }
}

std::string ServerContext::new_id() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = random_();
    for (int i = 0; i < 16; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

}  // namespace stoker
