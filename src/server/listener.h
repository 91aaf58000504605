// Where a server listens: a TCP port, or a socket in the file system.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstdint>

#include "server/server.h"
#include "stoker/result.h"

namespace stoker {

using StreamSocket = boost::asio::generic::stream_protocol::socket;
using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

/// Listens as the options say; returns the port, 0 for a socket in the file system. A socket file
/// that nobody listens on any more is replaced. Errors: kInvalidArgument for a host that is no
/// address of this machine or a path that is too long or no socket, kIo for what cannot be had.
Result<uint16_t> listen_on(Acceptor& acceptor, const ServerOptions& options);

/// Removes the socket file, if there is one.
void remove_socket_file(const ServerOptions& options);

}  // namespace stoker
