// One client's connection: reads requests one after the other, hands those with a body to the
// workers, writes answers.
//
// The socket is watched all the time, also while an answer is made, so that a client that goes away
// is noticed at once; what it has sent ahead is kept for the next request. An answer's events are
// read only when nothing waits to be written, so that a slow reader costs one buffer.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/answer.h"
#include "server/http_parser.h"
#include "server/http_response.h"
#include "server/listener.h"
#include "server/server_context.h"

namespace stoker {

class StorageExchange;
struct Prepared;

/// Belongs to the server's thread; lives until it has closed and its last handler has run.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(StreamSocket socket, ServerContext& context);

  /// Starts reading. It registers itself in the context until it is closed.
  void start();

  /// Closes when nothing is being answered or written; to be called after ServerContext::is_closing
  /// was set.
  void close_when_idle();

  /// Closes now; what it was doing is cancelled.
  void abort();

  /// Ends what the engine makes for a request with one of these ids. Whether there is such.
  bool abort_answer_of(const std::unordered_set<std::string>& request_ids);

  /// Moves what the engine has ready to the client.
  void pump();

 private:
  using Clock = std::chrono::steady_clock;
  using BoostError = boost::system::error_code;

  enum class Phase {
    kHead,       ///< waits for a request, or reads its head
    kBody,       ///< reads its body
    kAnswering,  ///< the request is with the workers, or its answer is being made
    kLingering,  ///< has written its last byte and waits for the client to close
    kClosed,
  };

  template <class Work>
  void guard(const Work& work);

  // Reading.
  void watch_socket();
  void on_readable(BoostError error);
  void on_peer_gone(BoostError error);
  void advance();
  bool count_body(size_t num_bytes);
  void on_head();
  void dispatch();

  // Answering.
  void start_answer();
  void on_prepared(Prepared prepared);
  void begin_answer(Prepared prepared);
  void move_events();
  void finish_answer();
  bool admit();
  HttpError too_many_of_key() const;
  void release();
  void append_head(ResponseHead head);
  void respond(int status, std::string_view body, const char* content_type = "application/json",
               int retry_after_s = 1);
  void respond_error(const HttpError& error);
  void end_exchange();
  void log_exchange(int status, const char* reason);

  // Files and batches.
  void begin_storage(const std::string& owner);
  bool is_storing() const;
  void store_piece();
  void start_storage_answer();
  void on_stored();
  void on_storage();
  void begin_content();
  void send_piece();
  void pump_content();

  // Snapshots of the engine.
  void start_saving();
  void on_saved(const Result<SavedSnapshot>& saved);
  void answer_saved(const Result<SavedSnapshot>& saved);

  // Writing and closing.
  void flush();
  BoostError write_some();
  void wait_writable();
  void on_writable(BoostError error);
  void go_on();
  bool is_writing() const { return !in_flight_.empty(); }
  void linger();
  void close();

  // Time.
  void set_deadline(std::chrono::milliseconds limit);
  void arm_timer();
  void on_timer();
  void on_deadline();

  StreamSocket socket_;
  ServerContext& context_;
  boost::asio::steady_timer timer_;
  bool is_timer_armed_ = false;
  Clock::time_point deadline_;        // of the phase, while nothing is written
  Clock::time_point write_deadline_;  // while something is

  Phase phase_ = Phase::kHead;
  HttpParser parser_;
  std::string input_;          // read and not yet parsed
  size_t num_body_bytes_ = 0;  // of this connection in ServerContext::num_body_bytes
  bool is_watching_ = false;
  bool is_peer_gone_ = false;

  std::optional<HttpError> refusal_;  // of the current request, by its head
  std::string request_id_;
  std::string key_name_;           // of the key that the current request shows; may be empty
  bool is_admitted_ = false;       // it counts in ServerContext::num_answering
  Clock::time_point begin_;        // of the current request: its first byte was there
  size_t num_request_bytes_ = 0;   // of its body
  size_t num_response_bytes_ = 0;  // of its answer
  bool is_keep_alive_ = true;
  std::shared_ptr<std::atomic<bool>> is_abandoned_;  // tells the workers not to bother
  std::unique_ptr<Answer> answer_;
  bool is_streaming_ = false;
  bool is_chunked_ = false;  // a stream's pieces are chunks of HTTP/1.1
  std::shared_ptr<StorageExchange>
      storage_;              // of the current request, where it is of a file or batch
  bool is_sending_ = false;  // its answer is a file, whose head is written

  std::string output_;      // waits to be written
  std::string in_flight_;   // is being written
  size_t num_written_ = 0;  // of it
  bool close_after_write_ = false;
};

}  // namespace stoker
