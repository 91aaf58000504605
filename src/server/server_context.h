// What the connections of a server share. Everything here belongs to the server's thread, except
// what is constant and `workers`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/identity.h"
#include "server/server.h"

namespace stoker {

class Connection;

struct ServerContext {
  ServerContext(Engine& engine_in, ServerOptions options_in);

  Engine& engine;
  const ServerOptions options;
  const int64_t created;  ///< when the server started, seconds of the Unix clock

  boost::asio::io_context io{1};
  boost::asio::thread_pool workers;  ///< parse bodies and submit

  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::function<void()> on_connection_closed;
  bool is_draining = false;   ///< new requests are refused
  bool is_closing = false;    ///< and a connection closes when it has nothing to write
  size_t num_body_bytes = 0;  ///< of requests that are read or parsed
  std::vector<char> read_buffer;
  IdSource ids;
  UnknownFields unknown_fields;

  void log(LogLevel level, const std::string& line) const;
};

}  // namespace stoker
