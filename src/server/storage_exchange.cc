#include "server/storage_exchange.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "base/folder.h"

namespace stoker {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;

}  // namespace

StorageExchange::StorageExchange(ServerContext& context, StorageRequest request,
                                 std::function<void()> ready)
    : context_(context), ready_(std::move(ready)), request_(std::move(request)) {}

void StorageExchange::expect_upload(std::string_view boundary) {
  upload_ = std::make_unique<FileUpload>(context_.batches->files(), request_.owner, boundary);
}

void StorageExchange::put(std::string bytes) {
  start([this, bytes = std::move(bytes)] {
    if (auto taken = upload_->put(bytes); !taken) note(taken.error());
  });
}

void StorageExchange::finish(std::string bytes) {
  start([this, bytes = std::move(bytes)] { make_answer(bytes); });
}

void StorageExchange::read() {
  start([this] { read_piece(); });
}

// Its owner may be gone before the job is: the job keeps it alive.
void StorageExchange::start(std::function<void()> job) {
  is_busy_ = true;
  boost::asio::post(context_.storage, [self = shared_from_this(), job = std::move(job)] {
    try {
      job();
    } catch (const std::exception& exception) {
      self->answer_.error = to_http_error(exception);
    }
    boost::asio::post(self->context_.io, [self] {
      self->is_busy_ = false;
      self->ready_();
    });
  });
}

void StorageExchange::make_answer(const std::string& bytes) {
  if (!upload_) {
    request_.body = bytes;
    answer_ = answer_from_storage(*context_.batches, request_);
    return;
  }
  if (auto taken = upload_->put(bytes); !taken) return note(taken.error());
  const auto file = upload_->finish();
  if (!file) return note(file.error());
  answer_.body = stored_file_json(*file);
}

std::optional<int64_t> StorageExchange::content_bytes() const {
  if (!answer_.content) return std::nullopt;
  return answer_.content->num_bytes;
}

void StorageExchange::read_piece() {
  const StoredContent& content = *answer_.content;
  piece_.resize(static_cast<size_t>(std::min(kPieceBytes, content.num_bytes - num_read_)));
  const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(piece_.data()), piece_.size());
  if (const int code = read_at(content.descriptor.get(), num_read_, out); code != 0)
    return note(system_error("the file", "cannot be read", code));
  num_read_ += static_cast<int64_t>(piece_.size());
}

void StorageExchange::drop(std::shared_ptr<StorageExchange> exchange) {
  if (!exchange) return;
  boost::asio::thread_pool& storage = exchange->context_.storage;
  boost::asio::post(storage, [exchange = std::move(exchange)] {});
}

}  // namespace stoker
