// One request of the routes of files and batches, between its connection and the thread that waits
// for the disk: pieces of a body go there, the answer and pieces of a file come back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/file_upload.h"
#include "server/server_context.h"
#include "server/storage_routes.h"

namespace stoker {

/// Used by the server's thread, and not while it is busy, but for is_busy() and drop(). Its jobs
/// run on the storage thread, one at a time.
class StorageExchange : public std::enable_shared_from_this<StorageExchange> {
 public:
  /// `ready` is called on the server's thread when a job is done.
  StorageExchange(ServerContext& context, StorageRequest request, std::function<void()> ready);

  /// What put() gets is the body of an upload with this boundary.
  void expect_upload(std::string_view boundary);
  bool is_upload() const { return upload_ != nullptr; }

  void put(std::string bytes);     ///< job: more of an upload
  void finish(std::string bytes);  ///< job: the rest of the body; then there is an answer
  void read();                     ///< job: the next piece of the content that is answered

  bool is_busy() const { return is_busy_; }
  /// What is wrong, after a job; nothing: all is well.
  const std::optional<HttpError>& error() const { return answer_.error; }
  /// The answer, after finish().
  const std::string& body() const { return answer_.body; }
  /// The size of the content that is answered in place of a body.
  std::optional<int64_t> content_bytes() const;
  bool is_read() const { return num_read_ == content_bytes(); }  ///< all of it
  const std::string& piece() const { return piece_; }            ///< of it, after read()

  /// Gives it up: what has to be removed from the disk for that is removed by the storage thread.
  static void drop(std::shared_ptr<StorageExchange> exchange);

 private:
  void start(std::function<void()> job);
  void note(const Error& error) { answer_.error = to_http_error(error); }
  void make_answer(const std::string& bytes);
  void read_piece();

  ServerContext& context_;
  const std::function<void()> ready_;
  bool is_busy_ = false;

  // The job's, while it is busy.
  StorageRequest request_;
  std::unique_ptr<FileUpload> upload_;  // null: the request is none
  StorageAnswer answer_;
  int64_t num_read_ = 0;
  std::string piece_;
};

}  // namespace stoker
