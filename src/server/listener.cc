#include "server/listener.h"

#include <sys/un.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/try.h"

namespace stoker {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::ip::tcp;
using asio::local::stream_protocol;
using BoostError = boost::system::error_code;

constexpr auto kSocketPermissions =
    fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::group_write;

std::string address_text(const ServerOptions& options) {
  return options.host + ":" + std::to_string(options.port);
}

Error listen_error(const ServerOptions& options, const BoostError& error) {
  return {ErrorCode::kIo,
          "cannot listen on " + address_text(options) + ": " + error.message() +
              "; choose another port, or end the program that has it",
          "port"};
}

Error wrong_host(const ServerOptions& options, const std::string& expected,
                 const BoostError& error) {
  return {ErrorCode::kInvalidArgument,
          "host: expected " + expected + ", found " + options.host + " (" + error.message() + ")",
          "host"};
}

Result<tcp::endpoint> resolve(const asio::any_io_executor& executor, const ServerOptions& options) {
  BoostError error;
  tcp::resolver resolver(executor);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty() || options.host.empty())
    return wrong_host(options, "an address or name of this machine", error);
  return found.begin()->endpoint();
}

Result<uint16_t> listen_on_port(Acceptor& acceptor, const ServerOptions& options) {
  TRY_ASSIGN(const tcp::endpoint endpoint, resolve(acceptor.get_executor(), options));
  BoostError error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (error == asio::error::address_family_not_supported ||
      error == boost::system::errc::address_not_available)
    return wrong_host(options, "an address of this machine", error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return listen_error(options, error);
  const auto bound = acceptor.local_endpoint(error);
  tcp::endpoint local;
  local.resize(bound.size());
  std::memcpy(local.data(), bound.data(), bound.size());
  return local.port();
}

// Makes way: a file that is a socket, and that nobody listens on.
Result<void> clear_path(const asio::any_io_executor& executor, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return {};
  if (!fs::is_socket(status)) {
    return Error{ErrorCode::kInvalidArgument,
                 "uds: expected a path that is free, or an old socket, found a file at " + path,
                 "uds"};
  }
  BoostError refused;
  stream_protocol::socket probe(executor);
  probe.connect(stream_protocol::endpoint(path), refused);
  if (!refused)
    return Error{ErrorCode::kIo, "another program listens on " + path + "; end it first", "uds"};
  fs::remove(path, error);
  return {};
}

Result<uint16_t> listen_on_file(Acceptor& acceptor, const ServerOptions& options) {
  const std::string& path = options.unix_socket;
  constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMaxPathBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "uds: expected a path of at most " + std::to_string(kMaxPathBytes) +
                     " bytes, found one of " + std::to_string(path.size()),
                 "uds"};
  }
  if (auto cleared = clear_path(acceptor.get_executor(), path); !cleared)
    return std::move(cleared).error();
  const stream_protocol::endpoint endpoint(path);
  BoostError error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.bind(endpoint, error);
  std::error_code refused;
  if (!error) fs::permissions(path, kSocketPermissions, refused);
  if (!error && !refused) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error && !refused) return uint16_t{0};
  return Error{ErrorCode::kIo,
               "cannot listen on " + path + ": " + (error ? error.message() : refused.message()),
               "uds"};
}

}  // namespace

Result<uint16_t> listen_on(Acceptor& acceptor, const ServerOptions& options) {
  return options.unix_socket.empty() ? listen_on_port(acceptor, options)
                                     : listen_on_file(acceptor, options);
}

void remove_socket_file(const ServerOptions& options) {
  std::error_code ignored;
  if (!options.unix_socket.empty()) fs::remove(options.unix_socket, ignored);
}

}  // namespace stoker
