#include "server/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/thread_name.h"
#include "base/try.h"
#include "server/connection.h"
#include "server/listener.h"
#include "server/server_context.h"

namespace stoker {
namespace {

namespace asio = boost::asio;
using BoostError = boost::system::error_code;

constexpr size_t kReservedDescriptors = 64;  // for the model's files, logs and the event loop
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

size_t connections_that_descriptors_allow() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= 2 * kReservedDescriptors) {
    return kReservedDescriptors;
  }
  return static_cast<size_t>(limit.rlim_cur) - kReservedDescriptors;
}

Result<void> check_profile_folder(const std::string& folder) {
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return {};
  return Error{ErrorCode::kNotFound, folder + ": expected a folder for profiles, found none",
               "profile_dir"};
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions options)
      : context(std::move(options)),
        work(context.io.get_executor()),
        acceptor(context.io),
        accept_timer(context.io),
        max_connections(context.options.max_connections > 0 ? context.options.max_connections
                                                            : connections_that_descriptors_allow()),
        has_client_keys(!context.options.api_keys.empty()) {
    context.on_connection_closed = [this] { on_connection_closed(); };
  }

  Result<void> open_batches();
  Result<void> listen();
  void accept();
  void on_accepted(BoostError error, StreamSocket socket);
  void on_connection_closed();
  void run();
  void attach(Engine& attached);
  Result<void> set_keys(const std::vector<ApiKey>& clients, const std::vector<ApiKey>& admins);
  void stop(std::chrono::milliseconds grace);
  void post_to_connections(void (Connection::*action)());

  ServerContext context;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  Acceptor acceptor;
  asio::steady_timer accept_timer;  // after an accept that failed for want of descriptors
  const size_t max_connections;
  bool is_accepting = false;
  uint16_t port = 0;

  std::mutex mutex;  // guards what follows
  bool has_client_keys = false;
  Engine* engine = nullptr;
  std::condition_variable all_closed;
  size_t num_open = 0;
  bool is_stopped = false;

  std::jthread thread;  // runs context.io
};

Result<void> Server::Impl::open_batches() {
  const ServerOptions& options = context.options;
  if (options.batch_folder.empty()) return {};
  BatchServiceOptions wanted;
  wanted.folder = options.batch_folder;
  wanted.max_files = static_cast<size_t>(options.max_batch_files);
  wanted.max_in_flight = static_cast<size_t>(options.batch_concurrency);
  wanted.max_line_bytes = options.max_body_bytes;
  wanted.log = options.log;
  TRY_ASSIGN(context.batches, BatchService::open(std::move(wanted)));
  return {};
}

Result<void> Server::Impl::listen() {
  TRY_ASSIGN(port, listen_on(acceptor, context.options));
  return {};
}

// One accept is under way at a time, and none while the connections are at their limit.
void Server::Impl::accept() {
  if (is_accepting || !acceptor.is_open() || context.connections.size() >= max_connections) return;
  is_accepting = true;
  acceptor.async_accept([this](BoostError error, StreamSocket socket) {
    is_accepting = false;
    on_accepted(error, std::move(socket));
  });
}

void Server::Impl::on_accepted(BoostError error, StreamSocket socket) {
  // One that was accepted as the last connections were closed is closed with them.
  if (error == asio::error::operation_aborted || context.is_closing) return;
  if (!error) {
    const auto connection = std::make_shared<Connection>(std::move(socket), context);
    {
      const std::scoped_lock lock(mutex);
      ++num_open;
    }
    connection->start();
  } else if (error != asio::error::connection_aborted) {
    // No descriptors, most likely. The client stays in the queue of the system; trying at once
    // would spin.
    context.log(LogLevel::kWarning, "accept failed reason=" + error.message());
    accept_timer.expires_after(kAcceptPause);
    accept_timer.async_wait([this](BoostError cancelled) {
      if (!cancelled) accept();
    });
    return;
  }
  accept();
}

void Server::Impl::on_connection_closed() {
  {
    const std::scoped_lock lock(mutex);
    if (--num_open == 0) all_closed.notify_all();
  }
  accept();
}

void Server::Impl::run() {
  for (;;) {
    try {
      context.io.run();
      return;
    } catch (const std::exception& exception) {
      context.log(LogLevel::kError, std::string("handler failed reason=") + exception.what());
      accept();
    }
  }
}

void Server::Impl::post_to_connections(void (Connection::*action)()) {
  asio::post(context.io, [this, action] {
    const auto connections = context.connections;  // a copy: the action may take them out
    for (const auto& connection : connections) (*connection.*action)();
  });
}

void Server::Impl::attach(Engine& attached) {
  const std::scoped_lock lock(mutex);
  if (is_stopped) return;
  engine = &attached;
  asio::post(context.io, [this, &attached] { context.attach(attached); });
}

Result<void> Server::Impl::set_keys(const std::vector<ApiKey>& clients,
                                    const std::vector<ApiKey>& admins) {
  const std::scoped_lock lock(mutex);
  if (has_client_keys && clients.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "api_key: expected a key, since there were some, found none", "api_key"};
  }
  has_client_keys = !clients.empty();
  if (is_stopped) return {};
  asio::post(context.io, [this, of_clients = KeyRing(clients), of_admins = KeyRing(admins)] {
    context.set_keys(of_clients, of_admins);
  });
  return {};
}

void Server::Impl::stop(std::chrono::milliseconds grace) {
  Engine* attached = nullptr;
  {
    const std::scoped_lock lock(mutex);
    if (std::exchange(is_stopped, true)) return;
    attached = engine;
  }
  asio::post(context.io, [this] {
    context.is_draining = true;
    BoostError ignored;
    acceptor.close(ignored);
    remove_socket_file(context.options);
    accept_timer.cancel();
  });
  const auto deadline = std::chrono::steady_clock::now() + grace;
  if (context.batches) context.batches->stop(grace);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (attached != nullptr) attached->drain(std::max(left, std::chrono::milliseconds(0)));
  asio::post(context.io, [this] { context.is_closing = true; });
  post_to_connections(&Connection::close_when_idle);
  {
    std::unique_lock lock(mutex);
    all_closed.wait_for(lock, context.options.close_timeout, [this] { return num_open == 0; });
  }
  post_to_connections(&Connection::abort);
  // A body that is being parsed is finished first; what it submits is refused. Then the loop runs
  // out of handlers, and with them the last streams are gone.
  context.workers.join();
  context.storage.join();
  context.snapshots.join();
  work.reset();
  thread.join();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  try {
    if (auto checked = check_profile_folder(options.profile_folder); !checked)
      return std::move(checked).error();
    auto impl = std::make_unique<Impl>(std::move(options));
    if (auto opened = impl->open_batches(); !opened) return std::move(opened).error();
    if (auto listening = impl->listen(); !listening) return std::move(listening).error();
    impl->accept();
    impl->thread = std::jthread([raw = impl.get()] {
      name_this_thread("http");
      raw->run();
    });
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kResourceExhausted,
                 std::string("the server cannot start: ") + exception.what(), ""};
  }
}

void Server::tell(const Progress& progress) {
  asio::post(impl_->context.io, [&context = impl_->context, progress] {
    context.start.set(progress, StartPhase::Clock::now());
  });
}

void Server::attach(Engine& engine) {
  impl_->attach(engine);
}

Result<void> Server::set_keys(const std::vector<ApiKey>& clients,
                              const std::vector<ApiKey>& admins) {
  return impl_->set_keys(clients, admins);
}

void Server::log_state() {
  asio::post(impl_->context.io, [&context = impl_->context] { context.log_state(); });
}

uint16_t Server::port() const {
  return impl_->port;
}

void Server::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}

}  // namespace stoker
