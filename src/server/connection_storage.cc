// What a connection does for the routes of files and batches: bodies of uploads go to the disk as
// they come, files are sent as they are read.
#include <utility>

#include "server/connection.h"
#include "server/multipart.h"
#include "server/plain_routes.h"
#include "server/storage_exchange.h"

namespace stoker {
namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 20;  // of an upload, in memory

}  // namespace

// The head of such a request is there, and has passed.
void Connection::begin_storage(const std::string& owner) {
  const HttpRequest& request = parser_.request();
  const Target target = target_of(request.path);
  refusal_ = why_stopping(context_);
  if (refusal_) return;
  const auto ready = [connection = weak_from_this()] {
    if (const auto self = connection.lock()) self->on_stored();
  };
  storage_ = std::make_shared<StorageExchange>(
      context_,
      StorageRequest{target, request.method, id_of(request.path), request.query, owner, ""}, ready);
  if (target != Target::kFiles || request.method != "POST") return;
  const auto boundary = multipart_boundary(request.content_parameters);
  if (boundary) return storage_->expect_upload(*boundary);
  refusal_ = {400, "Content-Type: expected a boundary of multipart/form-data, found none", "", ""};
}

bool Connection::is_storing() const {
  return storage_ && storage_->is_busy();
}

// Hands on what has come of an upload, once it is worth it.
void Connection::store_piece() {
  std::string& body = parser_.request().body;
  const bool is_due =
      storage_ && storage_->is_upload() && phase_ == Phase::kBody && body.size() >= kMaxPieceBytes;
  if (!is_due) return;
  set_deadline(ServerOptions::kNever);
  num_request_bytes_ += body.size();
  storage_->put(std::exchange(body, {}));
}

void Connection::start_storage_answer() {
  phase_ = Phase::kAnswering;
  set_deadline(ServerOptions::kNever);
  storage_->finish(std::move(parser_.request().body));
}

// A job of the storage thread is done.
void Connection::on_storage() {
  if (!storage_ || is_storing()) return;  // of a request that was refused meanwhile
  if (phase_ == Phase::kBody) {
    count_body(0);
    set_deadline(context_.options.body_idle_timeout);
    if (storage_->error()) respond_error(*storage_->error());
    return advance();
  }
  if (phase_ != Phase::kAnswering) return;
  if (is_sending_) return send_piece();
  count_body(0);
  if (!storage_->error() && storage_->content_bytes()) return begin_content();
  if (storage_->error()) {
    respond_error(*storage_->error());
  } else {
    respond(200, storage_->body());
  }
  advance();
}

void Connection::begin_content() {
  append_head({.content_type = kFileMediaType,
               .content_length = static_cast<size_t>(*storage_->content_bytes())});
  is_sending_ = true;
  pump_content();
}

// What was said of its size cannot be kept any more where the file cannot be read.
void Connection::send_piece() {
  if (storage_->error()) {
    log_exchange(storage_->error()->status, "error");
    return close();
  }
  output_ += storage_->piece();
  num_response_bytes_ += storage_->piece().size();
  pump_content();
}

// The next piece, once nothing waits to be written.
void Connection::pump_content() {
  if (is_storing()) return;
  flush();
  if (is_writing()) return;
  if (!storage_->is_read() && parser_.request().method != "HEAD") return storage_->read();
  log_exchange(200, "-");
  end_exchange();
  advance();
}

}  // namespace stoker
