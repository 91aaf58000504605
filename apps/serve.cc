// stoker serve: a model over HTTP until a signal comes. `stoker up` serves in the same way.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.h"
#include "common.h"
#include "running.h"
#include "serve_options.h"
#include "serving.h"
#include "stoker/process.h"

namespace stoker {
namespace {

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

/// The files that are open, as "0:/dev/null 2:/tmp/log".
std::string open_files_text() {
  std::string text;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || target.ends_with("/fd")) continue;  // the folder that is read here
    text += (text.empty() ? "" : " ") + entry.path().filename().string() + ":" + target;
  }
  return text;
}

void log_failure(const std::string& event, const Error& why, const std::string& then) {
  log_line(LogLevel::kError, "event=" + event + " reason=\"" + why.message + ": " + then + "\"");
}

/// An engine, and the server in front of it while there is one.
class ServerProcess {
 public:
  ServerProcess(ServeOptions options, const OptionsReader& read_again)
      : options_(std::move(options)), read_again_(read_again) {}

  Result<void> listen() {
    auto server = Server::start(options_.server);
    if (!server) return server.error();
    server_ = *std::move(server);
    return {};
  }
  void tell(const Progress& now) { server_->tell(now); }

  /// Answers with this engine from now on, and is found by `stoker ps`.
  void open(Opened opened) {
    opened_ = std::move(opened);
    open_server();
  }

  void wait_for_the_end();
  void stop() {
    if (server_) server_->stop(grace());
  }
  int shutdown_seconds() const { return options_.shutdown_seconds; }

 private:
  std::chrono::seconds grace() const { return std::chrono::seconds(options_.shutdown_seconds); }
  void open_server();
  void reload_keys();
  void quiesce();
  Result<void> resume();
  Result<ServeOptions> read_options() const;

  ServeOptions options_;
  const OptionsReader& read_again_;
  Opened opened_;                   // its engine outlives the server
  std::unique_ptr<Server> server_;  // null: quiesced
  std::optional<RunningMark> mark_;
};

void ServerProcess::open_server() {
  Engine& engine = *opened_.engine;
  server_->attach(engine);
  const std::string& socket = options_.server.unix_socket;
  const std::string url =
      socket.empty() ? url_of(options_.server.host, server_->port()) : "unix:" + socket;
  std::fprintf(stderr, "stoker: ready; %s answers at %s (try: %s)\n", engine.model().name.c_str(),
               url.c_str(), hint_of(options_.server, url).c_str());
  auto mark = RunningMark::leave({0, engine.model().name, url, opened_.snapshot, time_text()});
  if (mark) {
    mark_.emplace(*std::move(mark));
  } else {
    std::fprintf(stderr, "stoker: not told to stoker ps: %s\n", mark.error().message.c_str());
  }
}

Result<ServeOptions> ServerProcess::read_options() const {
  ServeOptions options;
  if (read_again_(&options)) return options;
  return Error{ErrorCode::kInvalidArgument, "the options are wrong", ""};
}

/// Takes the keys that the options say now: in a file of options they may be others than before.
void ServerProcess::reload_keys() {
  auto read = read_options();
  Result<void> taken;
  if (read) {
    taken = server_->set_keys(read->server.api_keys, read->server.admin_api_keys);
  } else {
    taken = read.error();
  }
  if (!taken) return log_failure("reload", taken.error(), "the keys stay as they are");
  options_.server.api_keys = read->server.api_keys;
  options_.server.admin_api_keys = read->server.admin_api_keys;
  log_line(LogLevel::kInfo,
           "event=reload api_keys=" + std::to_string(read->server.api_keys.size()) +
               " admin_api_keys=" + std::to_string(read->server.admin_api_keys.size()));
}

/// Ends the server, and has the engine let go of its files. Nothing of the outside is left.
void ServerProcess::quiesce() {
  if (auto able = opened_.engine->can_quiesce(); !able)
    return log_failure("quiesce", able.error(), "it goes on");
  mark_.reset();
  server_->stop(grace());
  server_.reset();
  if (auto quiet = opened_.engine->quiesce(std::chrono::milliseconds(0)); !quiet)
    return log_failure("quiesce", quiet.error(), "nobody is answered");
  log_line(LogLevel::kInfo, "event=quiesced open=\"" + open_files_text() + "\"");
}

/// Listens as the options say now, and answers once the engine has its files again. Until then
/// clients are told 503 and how far it is.
Result<void> ServerProcess::resume() {
  auto read = read_options();
  if (!read) return read.error();
  ServeOptions& now = *read;
  if (!options_.server.api_keys.empty() && now.server.api_keys.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "api_key: expected a key, since there were some, found none", "api_key"};
  }
  for (const std::string& name : options_for_a_restart(options_, now)) {
    log_line(LogLevel::kWarning,
             "event=resume option=" + name +
                 " reason=\"it takes a restart: the value of the start stays\"");
  }
  now.server.log = log_line;
  auto server = Server::start(now.server);
  if (!server) return server.error();
  ResumeOptions how;
  how.store = now.engine.weights.store;
  how.progress = [&server](const Progress& progress) { (*server)->tell(progress); };
  if (auto resumed = opened_.engine->resume(how); !resumed) return resumed;
  options_.server = std::move(now.server);
  options_.shutdown_seconds = now.shutdown_seconds;
  server_ = *std::move(server);
  log_line(LogLevel::kInfo, "event=resumed");
  open_server();
  return {};
}

void ServerProcess::wait_for_the_end() {
  while (true) {
    const ServerSignal signal = wait_for_server_signal();
    if (signal == ServerSignal::kStop) return;
    if (server_ == nullptr && signal == ServerSignal::kReload) {
      if (auto resumed = resume(); !resumed)
        log_failure("resume", resumed.error(), "it stays quiesced");
    } else if (server_ == nullptr) {
      log_line(LogLevel::kInfo, "event=server state=quiesced");
    } else if (signal == ServerSignal::kReload) {
      reload_keys();
    } else if (signal == ServerSignal::kQuiesce) {
      quiesce();
    } else {
      server_->log_state();
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
  EngineOptions engine = options.engine;
  ServerProcess process(std::move(options), read_again);
  if (auto listening = process.listen(); !listening) return report(listening.error());
  engine.on_stop = [&stop](const Error& why) { stop.set(why); };
  engine.progress = [&process](const Progress& now) { process.tell(now); };
  Opened opened = open(engine);
  if (opened.engine == nullptr) return opened.exit_code;
  process.open(std::move(opened));
  if (ready) ready();
  process.wait_for_the_end();
  if (const auto why = stop.get()) {
    report(*why);
    process.stop();
    return kDamagedExitCode;
  }
  std::fprintf(stderr,
               "stoker: stopping; what runs has %d s to finish, a second signal ends it at once\n",
               process.shutdown_seconds());
  process.stop();
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
