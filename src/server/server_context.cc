#include "server/server_context.h"

namespace stoker {
namespace {

constexpr size_t kReadBufferBytes = size_t{64} << 10;

ServerOptions with_defaults(ServerOptions options, const Engine& engine) {
  if (options.served_model_names.empty()) {
    options.served_model_names.push_back(engine.model().name);
  }
  if (options.num_request_threads < 1) options.num_request_threads = 1;
  return options;
}

}  // namespace

ServerContext::ServerContext(Engine& engine_in, ServerOptions options_in)
    : engine(engine_in),
      options(with_defaults(std::move(options_in), engine_in)),
      created(unix_seconds()),
      workers(static_cast<size_t>(options.num_request_threads)),
      read_buffer(kReadBufferBytes) {}

void ServerContext::log(LogLevel level, const std::string& line) const {
  if (options.log) options.log(level, line);
}

}  // namespace stoker
