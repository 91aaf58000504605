// OpenAI's HTTP interface over an Engine: HTTP/1.1 on one asynchronous thread, so that a quiet
// stream costs a socket and a few kilobytes. It listens before the engine is there, and says how
// far that is. docs/server.md says what it answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/cors.h"
#include "server/keys.h"
#include "stoker/engine.h"
#include "stoker/log.h"
#include "stoker/result.h"

namespace stoker {

/// How to serve. Plain values.
struct ServerOptions {
  /// For a time below that is not to come.
  static constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);

  std::string host = "127.0.0.1";  ///< an address or name of this machine
  uint16_t port = 8000;            ///< 0: any free one
  std::string unix_socket = {};    ///< a path: listens there instead of on host and port
  std::vector<std::string>
      served_model_names;             ///< the first one is told in answers; empty: the model's name
  std::vector<ApiKey> api_keys = {};  ///< of clients; none: everybody is served
  std::vector<ApiKey> admin_api_keys = {};  ///< none: there are no routes for administrators
  CorsRules cors = {};                      ///< which pages of other origins may read answers
  bool page = true;                         ///< a page for browsers at "/"
  bool tokenizer_info = false;              ///< /tokenizer_info is there
  bool metrics_need_key = false;            ///< /metrics takes one of these
  bool per_request_metrics = false;         ///< answers of OpenAI's routes tell their times
  bool force_include_usage = false;         ///< every stream of them ends with its usage
  bool strict_requests = false;             ///< a field that no table knows is a 400
  int max_requests_per_key = 0;   ///< that are answered at the same time; 0: no limit of its own
  std::string batch_folder = {};  ///< where files and batches are kept; empty: no such routes
  size_t max_batch_file_bytes = size_t{200} << 20;  ///< of the body of an upload
  int max_batch_files = 1000;                       ///< beyond them nothing is uploaded
  int batch_concurrency = 8;        ///< requests of a batch that are in the engine at the same time
  std::string profile_folder = {};  ///< of the files of /stop_profile; empty: no such route
  size_t max_header_bytes = size_t{64} << 10;
  size_t max_body_bytes = size_t{64} << 20;
  size_t max_buffered_bytes = size_t{1} << 30;  ///< of all bodies that are there at the same time
  size_t max_connections =
      0;  ///< more of them wait to be accepted; 0: what the limit on descriptors allows
  int num_request_threads = 2;  ///< that parse bodies and turn prompts into ids

  std::chrono::milliseconds header_timeout{10'000};      ///< from a head's first byte to its last
  std::chrono::milliseconds body_idle_timeout{30'000};   ///< between two pieces of a body
  std::chrono::milliseconds keep_alive_timeout{75'000};  ///< from an answer to the next request
  std::chrono::milliseconds write_stall_timeout{
      60'000};  ///< for a client that takes nothing of its answer
  std::chrono::milliseconds ping_interval{15'000};  ///< of silence in a stream
  std::chrono::milliseconds close_timeout{2'000};   ///< for a client to close its side

  LogSink log;  ///< may be null; called from threads of the server, several at a time
};

/// A running server. Its functions may be called from any thread.
class Server {
 public:
  /// Listens from now on. Until an engine is attached, it says 503 to what needs one, and how far
  /// that is. Errors: kInvalidArgument for a host that is no address of this machine, kIo for a
  /// port that cannot be had, kResourceExhausted; for the folder of batches those of
  /// BatchService::open.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);

  /// What clients are told until an engine is attached.
  void tell(const Progress& progress);

  /// Answers with this engine from now on. Once; the engine must outlive the server.
  void attach(Engine& engine);

  /// Whom it serves from now on; what runs goes on. Error: kInvalidArgument where there were keys
  /// of clients and none is given, which would open it to everybody.
  Result<void> set_keys(const std::vector<ApiKey>& clients, const std::vector<ApiKey>& admins);

  /// Tells the log what it does, and has the engine tell it too.
  void log_state();

  ~Server();  ///< stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The port it listens on; 0 with a Unix socket.
  uint16_t port() const;

  /// Accepts nothing more, answers 503 to new requests, lets what runs go on for up to `grace`,
  /// then cancels it, writes what is left to be written, closes and returns. A second call returns
  /// at once.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Impl;

  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
