// What a connection does while its client waits for a snapshot of the engine: a thread of its own
// makes it, one at a time, and gives up when the client goes.
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "server/connection.h"
#include "server/plain_routes.h"
#include "server/snapshot_route.h"

namespace stoker {
namespace {

HttpError is_saving_already() {
  return snapshot_http_error(
      {ErrorCode::kOverloaded, "a snapshot is being made already: expected one at a time", ""});
}

// On the thread of snapshots.
Result<SavedSnapshot> save_engine(Engine& engine, const SaveSnapshot& order) {
  try {
    return engine.save_snapshot(order);
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, exception.what(), ""};
  }
}

}  // namespace

void Connection::start_saving() {
  if (const auto stopping = why_stopping(context_)) return respond_error(*stopping);
  if (context_.engine == nullptr) return respond_error(*why_not_served(context_));
  auto order = read_snapshot_order(parser_.request().body);
  if (!order) return respond_error(to_http_error(order.error()));
  if (context_.is_saving) return respond_error(is_saving_already());
  context_.is_saving = true;
  phase_ = Phase::kAnswering;
  set_deadline(ServerOptions::kNever);
  is_abandoned_ = std::make_shared<std::atomic<bool>>(false);
  order->is_cancelled = [abandoned = is_abandoned_] { return abandoned->load(); };
  boost::asio::post(context_.snapshots,
                    [self = shared_from_this(), &context = context_, order = *std::move(order)] {
                      Result<SavedSnapshot> saved = save_engine(*context.engine, order);
                      boost::asio::post(context.io, [self, &context, saved = std::move(saved)] {
                        context.is_saving = false;
                        self->on_saved(saved);
                      });
                    });
}

void Connection::answer_saved(const Result<SavedSnapshot>& saved) {
  if (saved) {
    const SavedSnapshot& done = *saved;
    context_.log(LogLevel::kInfo, "event=snapshot id=" + done.info.id +
                                      " bytes=" + std::to_string(done.info.num_bytes) +
                                      " prefixes=" + std::to_string(done.num_prefixes) +
                                      " prefix_tokens=" + std::to_string(done.num_prefix_tokens));
    respond(200, saved_snapshot_json(done));
  } else {
    respond_error(snapshot_http_error(saved.error()));
  }
  advance();
}

}  // namespace stoker
