// How engine threads tell the server's thread that streams have something. A step of the engine
// tells all that it goes for; the server's thread is woken once.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace stoker {

class Connection;
class WakeQueue;

/// Of the streams of one answer. The queue outlives it.
class Wake : public std::enable_shared_from_this<Wake> {
 public:
  Wake(WakeQueue& queue, std::weak_ptr<Connection> connection)
      : queue_(queue), connection_(std::move(connection)) {}

  /// From any thread: lets Connection::pump be called soon, once for all calls until then.
  void ring();

 private:
  friend class WakeQueue;

  WakeQueue& queue_;
  const std::weak_ptr<Connection> connection_;
  std::atomic<bool> is_queued_{false};
};

/// Belongs to the server.
class WakeQueue {
 public:
  /// `io` runs on the server's thread.
  explicit WakeQueue(boost::asio::io_context& io) : io_(io) {}

 private:
  friend class Wake;

  void push(std::shared_ptr<Wake> wake);
  void run();

  boost::asio::io_context& io_;
  std::vector<std::shared_ptr<Wake>> running_;  // of the server's thread: keeps its memory
  std::mutex mutex_;                            // guards queued_
  std::vector<std::shared_ptr<Wake>> queued_;
};

}  // namespace stoker
