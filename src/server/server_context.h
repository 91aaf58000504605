// What the connections of a server share. Everything here belongs to the server's thread, except
// what is constant, `workers`, `storage`, `snapshots` and `batches`, and for these `engine` and
// `names`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "server/batch_service.h"
#include "server/identity.h"
#include "server/metrics.h"
#include "server/retry_after.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/start_phase.h"
#include "server/wake.h"

namespace stoker {

class Connection;

struct ServerContext {
  explicit ServerContext(ServerOptions options_in);

  /// From now on there is an engine.
  void attach(Engine& engine_in);

  const ServerOptions options;
  AccessRules access;
  const int64_t created;  ///< when the server started, seconds of the Unix clock

  Engine* engine = nullptr;        ///< null until it is attached; then it stays
  std::vector<std::string> names;  ///< the served ones, with an engine
  StartPhase start;                ///< how far the engine is, until then

  boost::asio::io_context io{1};
  WakeQueue wakes{io};
  std::unique_ptr<BatchService> batches;  ///< null: there are no routes of files and batches
  boost::asio::thread_pool workers;       ///< parse bodies and submit
  boost::asio::thread_pool storage{1};    ///< reads and writes what is stored; uses `batches`
  boost::asio::thread_pool snapshots{1};  ///< makes one, which may take minutes

  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::function<void()> on_connection_closed;
  bool is_draining = false;   ///< new requests are refused
  bool is_paused = false;     ///< the same, until it is taken back
  bool is_asleep = false;     ///< the same, while the engine gives memory back
  bool is_saving = false;     ///< a snapshot is being made
  bool is_closing = false;    ///< and a connection closes when it has nothing to write
  size_t num_body_bytes = 0;  ///< of requests that are read or parsed
  int64_t num_answering = 0;  ///< requests for the engine that are under way
  std::unordered_map<std::string, int> num_answering_of_key;  ///< of these; no zeros
  std::vector<char> read_buffer;
  std::string events;    ///< on their way from an answer to its connection: keeps its memory
  int num_profiles = 0;  ///< that were written
  RunTimes run_times;
  IdSource ids;
  ServerMetrics metrics;
  UnknownFields unknown_fields;

  /// Sets is_paused and is_asleep; batches wait for as long as one of them is so.
  void set_paused(bool paused);
  void set_asleep(bool asleep);
  void set_keys(KeyRing clients, KeyRing admins);
  /// What /openapi.json tells; made when somebody asks.
  const std::string& openapi();
  void log_state() const;

  void log(LogLevel level, const std::string& line) const;

 private:
  std::string openapi_;  // "" until somebody asked
};

}  // namespace stoker
