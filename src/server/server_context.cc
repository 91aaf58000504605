#include "server/server_context.h"

#include "server/openapi.h"

namespace stoker {
namespace {

constexpr size_t kReadBufferBytes = size_t{64} << 10;

ServerOptions with_defaults(ServerOptions options) {
  if (options.num_request_threads < 1) options.num_request_threads = 1;
  return options;
}

}  // namespace

ServerContext::ServerContext(ServerOptions options_in)
    : options(with_defaults(std::move(options_in))),
      access{KeyRing(options.api_keys), KeyRing(options.admin_api_keys), options.metrics_need_key,
             !options.batch_folder.empty(), !options.profile_folder.empty()},
      openapi(openapi_json(options, access)),
      created(unix_seconds()),
      names(options.served_model_names),
      workers(static_cast<size_t>(options.num_request_threads)),
      read_buffer(kReadBufferBytes) {}

void ServerContext::attach(Engine& engine_in) {
  engine = &engine_in;
  if (names.empty()) names.push_back(engine->model().name);
  if (batches) batches->attach(engine_in, names);
}

void ServerContext::set_paused(bool paused) {
  is_paused = paused;
  if (batches) batches->set_paused(is_paused || is_asleep);
}

void ServerContext::set_asleep(bool asleep) {
  is_asleep = asleep;
  if (batches) batches->set_paused(is_paused || is_asleep);
}

void ServerContext::log(LogLevel level, const std::string& line) const {
  if (options.log) options.log(level, line);
}

}  // namespace stoker
