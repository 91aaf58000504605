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

void ServerContext::set_keys(KeyRing clients, KeyRing admins) {
  access.clients = std::move(clients);
  access.admins = std::move(admins);
  openapi_.clear();
}

const std::string& ServerContext::openapi() {
  if (openapi_.empty()) openapi_ = openapi_json(options, access);
  return openapi_;
}

void ServerContext::log_state() const {
  const auto word = [](bool is_so) { return std::string(is_so ? "yes" : "no"); };
  log(LogLevel::kInfo, "event=server connections=" + std::to_string(connections.size()) +
                           " answering=" + std::to_string(num_answering) +
                           " body_bytes=" + std::to_string(num_body_bytes) +
                           " paused=" + word(is_paused) + " asleep=" + word(is_asleep) +
                           " draining=" + word(is_draining) + " engine=" +
                           (engine == nullptr   ? "starting"
                            : engine->healthy() ? "healthy"
                                                : "stopped"));
  if (engine == nullptr) return;
  const EngineStats stats = engine->stats();
  log(LogLevel::kInfo, "event=engine running=" + std::to_string(stats.num_running) +
                           " waiting=" + std::to_string(stats.num_waiting) +
                           " steps=" + std::to_string(stats.total_steps) +
                           " blocks_used=" + std::to_string(stats.num_blocks_used) +
                           " blocks_cached=" + std::to_string(stats.num_blocks_cached) +
                           " blocks=" + std::to_string(stats.num_blocks) +
                           " preemptions=" + std::to_string(stats.total_preemptions));
  engine->log_state();
}

void ServerContext::log(LogLevel level, const std::string& line) const {
  if (options.log) options.log(level, line);
}

}  // namespace stoker
