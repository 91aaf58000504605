// stoker serve: a model over HTTP until a signal comes. `stoker up` serves in the same way.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "common.h"
#include "running.h"
#include "serve_options.h"
#include "serving.h"

namespace stoker {
namespace {

/// Exit code of a server whose weights turned out damaged while it answered.
constexpr int kDamagedWhileServing = 70;

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
    end_signal_wait();
  }
  std::optional<Error> get() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> why_;
};

/// Takes the keys that the options say now: in a file of options they may be others than before.
void reload_keys(Server& server, const OptionsReader& read_again) {
  ServeOptions options;
  Result<void> taken = Error{ErrorCode::kInvalidArgument, "the options are wrong", ""};
  if (read_again(&options))
    taken = server.set_keys(options.server.api_keys, options.server.admin_api_keys);
  if (!taken) {
    log_line(LogLevel::kError,
             "event=reload reason=\"" + taken.error().message + ": the keys stay as they are\"");
    return;
  }
  log_line(LogLevel::kInfo,
           "event=reload api_keys=" + std::to_string(options.server.api_keys.size()) +
               " admin_api_keys=" + std::to_string(options.server.admin_api_keys.size()));
}

void wait_for_the_end(Server& server, const OptionsReader& read_again) {
  while (true) {
    switch (wait_for_server_signal()) {
      case ServerSignal::kStop:
        return;
      case ServerSignal::kReload:
        reload_keys(server, read_again);
        break;
      case ServerSignal::kReport:
        server.log_state();
        break;
    }
  }
}

}  // namespace

int run_server(ServeOptions options, const EngineOpener& open, const OptionsReader& read_again,
               const std::function<void()>& ready) {
  EngineStop stop;
  note_server_signals();
  // A client or a reader of the log that goes away must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a batch beyond a limit on sizes fails, and not the server
  for (const std::string& warning : options.warnings)
    std::fprintf(stderr, "stoker: %s\n", warning.c_str());
  options.engine.log = log_line;
  options.server.log = log_line;
  const Result<std::unique_ptr<Server>> server = Server::start(options.server);
  if (!server) return report(server.error());
  options.engine.on_stop = [&stop](const Error& why) { stop.set(why); };
  options.engine.progress = [&server](const Progress& now) { (*server)->tell(now); };
  const Opened opened = open(options.engine);
  if (opened.engine == nullptr) return opened.exit_code;
  (*server)->attach(*opened.engine);
  const std::string& socket = options.server.unix_socket;
  const std::string url =
      socket.empty() ? url_of(options.server.host, (*server)->port()) : "unix:" + socket;
  std::fprintf(stderr, "stoker: ready; %s answers at %s (try: %s)\n",
               opened.engine->model().name.c_str(), url.c_str(),
               hint_of(options.server, url).c_str());
  const auto mark =
      RunningMark::leave({0, opened.engine->model().name, url, opened.snapshot, time_text()});
  if (!mark)
    std::fprintf(stderr, "stoker: not told to stoker ps: %s\n", mark.error().message.c_str());
  if (ready) ready();
  wait_for_the_end(**server, read_again);
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

int serve_command(const Arguments& arguments) {
  ServeOptions options;
  if (const auto code = read_serve_options(arguments, &options)) return *code;
  const std::string model = options.model;
  const auto open = [&model](const EngineOptions& engine) -> Opened {
    auto opened = open_engine(model, engine);
    if (!opened) return {nullptr, report(opened.error())};
    return {*std::move(opened), 0};
  };
  return run_server(std::move(options), open, [&arguments](ServeOptions* again) {
    return !read_serve_options(arguments, again);
  });
}

}  // namespace stoker
