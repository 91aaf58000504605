// stoker serve: a model over HTTP until a signal comes.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "common.h"
#include "config_file.h"
#include "server/server.h"

namespace stoker {
namespace {

/// Exit code of a server whose weights turned out damaged while it answered.
constexpr int kDamagedWhileServing = 70;

constexpr const char* kServeExamples =
    "  stoker serve demo\n"
    "  stoker serve /models/DeepSeek-V4.1-Flash --host 0.0.0.0 --port 8080 --served-model-name "
    "deepseek\n"
    "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of "
    "France?\"}]}'\n";

struct ServeOptions {
  std::string model;
  ServerOptions server;
  EngineOptions engine;
  int shutdown_seconds = 30;  ///< for what runs when the signal to stop comes
};

/// "2026-11-29T12:00:00.000Z"
std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char date[32], text[40];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(milliseconds));
  return text;
}

void log_line(LogLevel level, std::string_view line) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  if (level < LogLevel::kInfo) return;
  std::fprintf(stderr, "%s %s %.*s\n", time_text().c_str(), kNames[static_cast<int>(level)],
               static_cast<int>(line.size()), line.data());
}

std::string url_of(const std::string& host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return "http://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// What to do first.
std::string hint_of(const ServerOptions& options, const std::string& url) {
  if (!options.unix_socket.empty())
    return "curl --unix-socket " + options.unix_socket + " http://localhost/v1/models";
  return "curl " + url + "/v1/models" + (options.page ? ", or open it in a browser" : "");
}

/// Why the engine stopped by itself; set before the wait for the end ends.
class EngineStop {
 public:
  void set(const Error& why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = why;
    }
    end_shutdown_wait();
  }
  std::optional<Error> get() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> why_;
};

/// The keys of an option, or the one of the environment where the option is not there. `kind` names
/// those without a name of their own: "key-1", "key-2", ...
Result<std::vector<ApiKey>> read_keys(std::vector<std::string> texts,
                                      const std::vector<const char*>& variables,
                                      const std::string& kind) {
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);
    if (texts.empty() && value != nullptr && *value != '\0') texts.emplace_back(value);
  }
  std::vector<ApiKey> keys;
  for (const std::string& text : texts) {
    auto key = parse_api_key(text, kind + "-" + std::to_string(keys.size() + 1));
    if (!key) return std::move(key).error();
    keys.push_back(*std::move(key));
  }
  return keys;
}

/// Listens first, so that clients are told how far the start is.
int serve(ServeOptions options) {
  EngineStop stop;
  note_shutdown_signals();
  const Result<std::unique_ptr<Server>> server = Server::start(options.server);
  if (!server) return report(server.error());
  options.engine.on_stop = [&stop](const Error& why) { stop.set(why); };
  options.engine.progress = [&server](const Progress& now) { (*server)->tell(now); };
  const Result<std::unique_ptr<Engine>> engine = open_engine(options.model, options.engine);
  if (!engine) return report(engine.error());
  (*server)->attach(**engine);
  const std::string& socket = options.server.unix_socket;
  const std::string url =
      socket.empty() ? url_of(options.server.host, (*server)->port()) : "unix:" + socket;
  std::fprintf(stderr, "stoker: ready; %s answers at %s (try: %s)\n",
               (*engine)->model().name.c_str(), url.c_str(), hint_of(options.server, url).c_str());
  wait_for_shutdown_signal();
  const std::chrono::seconds grace(options.shutdown_seconds);
  if (const auto why = stop.get()) {
    report(*why);
    (*server)->stop(grace);
    return kDamagedWhileServing;
  }
  std::fprintf(stderr,
               "stoker: stopping; what runs has %d s to finish, a second signal ends it at once\n",
               options.shutdown_seconds);
  (*server)->stop(grace);
  return 0;
}

}  // namespace

int serve_command(const Arguments& arguments) {
  ServeOptions options;
  int port = options.server.port;
  std::vector<std::string> keys, admin_keys;
  std::string config;  // for --help: with_config_file has taken it
  OptionParser parser("serve",
                      "Answers over HTTP, with OpenAI's interfaces: /v1/completions, "
                      "/v1/chat/completions, /v1/responses, /v1/models, with Anthropic's: "
                      "/v1/messages, and /inference/v1/generate, /tokenize, /health, /metrics.",
                      kServeExamples);
  parser.positional("MODEL", &options.model, kModelHelp);
  parser.option("--host", "ADDRESS", &options.server.host,
                "An address of this machine [127.0.0.1]");
  parser.option("--port", "N", &port, "0 takes a free one and tells it [8000]");
  parser.option("--uds", "PATH", &options.server.unix_socket,
                "Listens on a Unix socket there, instead of an address and port");
  add_served_names_option(parser, &options.server.served_model_names);
  parser.option("--api-key", "[NAME=]KEY", &keys,
                "Clients must show one of these; may be given several times; also "
                "STOKER_API_KEY [everybody is served]");
  parser.option("--admin-api-key", "[NAME=]KEY", &admin_keys,
                "Opens the routes for administrators to who shows it; also STOKER_ADMIN_API_KEY "
                "[no such routes]");
  parser.off_flag("--no-page", &options.server.page, "No page for browsers at /");
  parser.flag("--enable-tokenizer-info-endpoint", &options.server.tokenizer_info,
              "Tells the tokenizer's first and last token at /tokenizer_info");
  parser.flag("--metrics-auth", &options.server.metrics_need_key, "/metrics takes a key too");
  parser.option("--max-requests-per-key", "N", &options.server.max_requests_per_key,
                "Requests of a key that are answered at the same time; one more is 429 [no limit]");
  add_engine_options(parser, &options.engine);
  parser.option("--shutdown-timeout", "S", &options.shutdown_seconds,
                "Seconds that what runs has to finish after SIGTERM or SIGINT [30]");
  parser.option(
      "--config", "FILE", &config,
      "Options from a YAML file: their names without the dashes; those on the command line "
      "come first");
  const auto all = with_config_file(arguments);
  if (!all) return parser.refuse(all.error().message);
  if (const auto code = parser.parse(*all)) return *code;
  if (port < 0 || port > 65535)
    return parser.refuse("--port: expected 0 to 65535, found " + std::to_string(port));
  options.server.port = static_cast<uint16_t>(port);
  auto client_keys = read_keys(std::move(keys), {"STOKER_API_KEY", "VLLM_API_KEY"}, "key");
  if (!client_keys) return parser.refuse("--api-key: " + client_keys.error().message);
  options.server.api_keys = *std::move(client_keys);
  auto admins = read_keys(std::move(admin_keys), {"STOKER_ADMIN_API_KEY"}, "admin");
  if (!admins) return parser.refuse("--admin-api-key: " + admins.error().message);
  options.server.admin_api_keys = *std::move(admins);
  if (options.shutdown_seconds < 0)
    return parser.refuse("--shutdown-timeout: expected at least 0, found " +
                         std::to_string(options.shutdown_seconds));
  if (options.server.max_requests_per_key < 0)
    return parser.refuse("--max-requests-per-key: expected at least 0, found " +
                         std::to_string(options.server.max_requests_per_key));

  // A client or a reader of the log that goes away must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  options.engine.log = log_line;
  options.server.log = log_line;
  return serve(std::move(options));
}

}  // namespace stoker
