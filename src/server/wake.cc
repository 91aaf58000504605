#include "server/wake.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/connection.h"

namespace stoker {

void Wake::ring() {
  if (!is_queued_.exchange(true)) queue_.push(shared_from_this());
}

void WakeQueue::push(std::shared_ptr<Wake> wake) {
  bool is_first = false;
  {
    const std::scoped_lock lock(mutex_);
    is_first = queued_.empty();
    queued_.push_back(std::move(wake));
  }
  if (is_first) boost::asio::post(io_, [this] { run(); });
}

void WakeQueue::run() {
  {
    const std::scoped_lock lock(mutex_);
    running_.swap(queued_);
  }
  for (const auto& wake : running_) {
    wake->is_queued_ = false;
    if (const auto connection = wake->connection_.lock()) connection->pump();
  }
  running_.clear();
}

}  // namespace stoker
