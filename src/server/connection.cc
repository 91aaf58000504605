#include "server/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/check.h"
#include "server/abort_route.h"
#include "server/cors.h"
#include "server/make_answer.h"
#include "server/plain_routes.h"
#include "server/prepare.h"
#include "server/routes.h"
#include "server/snapshot_route.h"
#include "server/storage_exchange.h"
#include "server/wake.h"

namespace stoker {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr size_t kMaxReadAheadBytes = size_t{256} << 10;  // of requests behind the current one
constexpr size_t kMaxBacklogBytes = size_t{64} << 10;     // of output, before more is made

std::chrono::steady_clock::time_point after(std::chrono::milliseconds limit) {
  return std::chrono::steady_clock::now() + limit;
}

// Where it is not that of all.
std::optional<size_t> max_body_bytes_of(Target target, const ServerOptions& options) {
  if (target == Target::kFiles) return options.max_batch_file_bytes;
  if (target == Target::kAbortRequests) return kMaxAbortBytes;
  if (target == Target::kSnapshot) return kMaxSnapshotBodyBytes;
  return std::nullopt;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  return text;
}

}  // namespace

Connection::Connection(StreamSocket socket, ServerContext& context)
    : socket_(std::move(socket)),
      context_(context),
      timer_(context.io),
      parser_({.max_header_bytes = context.options.max_header_bytes,
               .max_body_bytes = context.options.max_body_bytes,
               .max_body_bytes_of = [&options = context.options](std::string_view path) {
                 return max_body_bytes_of(target_of(path), options);
               }}) {}

void Connection::start() {
  BoostError ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);  // of TCP; others have no delay
  context_.connections.insert(shared_from_this());
  guard([this] {
    set_deadline(context_.options.header_timeout);
    watch_socket();
  });
}

void Connection::close_when_idle() {
  const bool is_idle = phase_ == Phase::kHead && !parser_.has_started() && input_.empty();
  if (is_idle && !is_writing()) {
    close();
  } else if (is_idle) {
    close_after_write_ = true;
  }
}

void Connection::abort() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kAnswering) log_exchange(499, "abort");
  close();
}

bool Connection::abort_answer_of(const std::unordered_set<std::string>& request_ids) {
  if (!answer_ || answer_->finished() || !request_ids.contains(request_id_)) return false;
  answer_->abort();
  return true;
}

// Runs a handler's work. What a library throws ends this connection, not the server.
template <class Work>
void Connection::guard(const Work& work) {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();  // closing must not destroy what is running
  try {
    work();
  } catch (const std::exception& exception) {
    context_.log(LogLevel::kError, std::string("connection closed reason=") + exception.what());
    close();
  }
}

// The storage thread has done its job.
void Connection::on_stored() {
  guard([this] { on_storage(); });
}

// The thread of snapshots has done its job.
void Connection::on_saved(const Result<SavedSnapshot>& saved) {
  guard([&] { answer_saved(saved); });
}

// ---- Reading

void Connection::watch_socket() {
  if (is_watching_ || is_peer_gone_ || phase_ == Phase::kClosed) return;
  if (input_.size() >= kMaxReadAheadBytes) return;
  is_watching_ = true;
  socket_.async_wait(StreamSocket::wait_read, [self = shared_from_this()](BoostError error) {
    self->is_watching_ = false;
    self->guard([&] { self->on_readable(error); });
  });
}

void Connection::on_readable(BoostError error) {
  size_t num_bytes = 0;
  if (!error) num_bytes = socket_.read_some(asio::buffer(context_.read_buffer), error);
  if (error == asio::error::would_block || error == asio::error::try_again) {
    watch_socket();
    return;
  }
  if (error) {
    on_peer_gone(error);
    return;
  }
  if (phase_ != Phase::kLingering) {
    input_.append(context_.read_buffer.data(), num_bytes);
    if (phase_ == Phase::kBody) set_deadline(context_.options.body_idle_timeout);
    advance();
  }
  watch_socket();
}

void Connection::on_peer_gone(BoostError error) {
  is_peer_gone_ = true;
  const bool is_cut_short = parser_.has_started() || !input_.empty();
  if (phase_ == Phase::kAnswering) {
    abort();
  } else if (error != asio::error::eof || phase_ == Phase::kLingering) {
    close();
  } else if (close_after_write_) {
    return;  // on_written closes
  } else if (is_cut_short) {
    respond_error({400, "the connection ended in the middle of the request", "", ""});
  } else {
    close_after_write_ = true;
    flush();
  }
}

// Parses what has been read, and begins what it asks for, until more has to be read or written
// first.
void Connection::advance() {
  size_t num_parsed = 0;
  while ((phase_ == Phase::kHead || phase_ == Phase::kBody) && !close_after_write_ &&
         !is_storing() && num_parsed < input_.size() && output_.size() < kMaxBacklogBytes) {
    if (!parser_.has_started()) {
      begin_ = Clock::now();
      set_deadline(context_.options.header_timeout);
    }
    num_parsed += parser_.feed(std::string_view(input_).substr(num_parsed));
    const HttpParser::State state = parser_.state();
    if (state == HttpParser::State::kFailed) {
      respond_error(parser_.error());
      break;
    }
    if (!count_body(parser_.request().body.size())) {
      respond_error({503, "too many large requests at the same time", "", ""});
      break;
    }
    if (state != HttpParser::State::kHead && phase_ == Phase::kHead) on_head();
    if (state != HttpParser::State::kDone) {
      store_piece();
      break;
    }
    dispatch();
  }
  input_.erase(0, num_parsed);
  flush();
  watch_socket();
}

// The bodies of all connections together have a limit. Returns whether this one's fits.
bool Connection::count_body(size_t num_bytes) {
  context_.num_body_bytes += num_bytes - num_body_bytes_;
  num_body_bytes_ = num_bytes;
  return num_bytes == 0 || context_.num_body_bytes <= context_.options.max_buffered_bytes;
}

// The head is there, and perhaps more. A request that its head alone refuses is not waited for.
void Connection::on_head() {
  const HttpRequest& request = parser_.request();
  phase_ = Phase::kBody;
  request_id_ = request.request_id.empty() ? context_.ids.next() : request.request_id;
  is_keep_alive_ = request.keep_alive && !context_.is_draining;
  Caller caller = caller_of(request, context_.access);
  refusal_ = check_head(request, context_.access, caller);
  key_name_ = std::move(caller.name);
  const Service service = service_of(target_of(request.path));
  if (!refusal_ && service == Service::kEngine) refusal_ = why_not_served(context_);
  if (!refusal_ && service == Service::kStorage && request.method != "OPTIONS")
    begin_storage(key_name_);
  set_deadline(context_.options.body_idle_timeout);
  if (parser_.state() != HttpParser::State::kBody) return;
  if (refusal_) {
    respond_error(*refusal_);
  } else if (request.expects_continue && request.body.empty()) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
}

// The request is whole.
void Connection::dispatch() {
  const HttpRequest& request = parser_.request();
  num_request_bytes_ += request.body.size();
  if (refusal_) return respond_error(*refusal_);
  if (request.method == "OPTIONS") return respond(204, "");
  if (service_of(target_of(request.path)) == Service::kEngine) return start_answer();
  if (storage_) return start_storage_answer();
  if (target_of(request.path) == Target::kSnapshot) return start_saving();
  const PlainAnswer answer = answer_plainly(context_, request);
  if (answer.error) return respond_error(*answer.error);
  respond(answer.status, answer.body, answer.content_type, answer.retry_after_s);
}

// ---- Answering

// Whether the key of a request may have one more answered.
bool Connection::admit() {
  const int most = context_.options.max_requests_per_key;
  if (!key_name_.empty()) {
    int& count = context_.num_answering_of_key[key_name_];
    if (most > 0 && count >= most) return false;
    ++count;
  }
  ++context_.num_answering;
  is_admitted_ = true;
  return true;
}

void Connection::release() {
  if (!std::exchange(is_admitted_, false)) return;
  --context_.num_answering;
  const auto of_key = context_.num_answering_of_key.find(key_name_);
  if (of_key != context_.num_answering_of_key.end() && --of_key->second == 0)
    context_.num_answering_of_key.erase(of_key);
}

// One of those that the key has under way ends after about so long.
HttpError Connection::too_many_of_key() const {
  const int most = context_.options.max_requests_per_key;
  const auto mean = context_.run_times.mean_seconds();
  return {429,
          "the key \"" + key_name_ + "\" has " + std::to_string(most) +
              " requests under way, which is its limit",
          "", "", retry_after_seconds(mean ? std::optional(*mean / most) : std::nullopt)};
}

void Connection::start_answer() {
  phase_ = Phase::kAnswering;
  if (!admit()) return respond_error(too_many_of_key());
  set_deadline(ServerOptions::kNever);
  is_abandoned_ = std::make_shared<std::atomic<bool>>(false);
  const Target target = target_of(parser_.request().path);
  asio::post(context_.workers, [self = shared_from_this(), &context = context_, target,
                                body = std::move(parser_.request().body), abandoned = is_abandoned_,
                                wake = std::make_shared<Wake>(context_.wakes, weak_from_this())] {
    Prepared prepared = prepare(context, target, body, *abandoned, [wake] { wake->ring(); });
    asio::post(context.io, [self, prepared = std::move(prepared)]() mutable {
      self->guard([&] { self->on_prepared(std::move(prepared)); });
    });
  });
}

void Connection::on_prepared(Prepared prepared) {
  count_body(0);
  context_.unknown_fields.tell(prepared.parsed.unknown_fields, context_.options.log);
  if (prepared.parsed.request_id && parser_.request().request_id.empty()) {
    request_id_ = *prepared.parsed.request_id;
  }
  if (prepared.error) {
    if (prepared.error->status == 429)
      prepared.error->retry_after_s =
          retry_after_seconds(context_.run_times.seconds_to_work_off(context_.engine->stats()));
    respond_error(*prepared.error);
    advance();
  } else if (prepared.body) {
    respond(200, *prepared.body);
    advance();
  } else {
    begin_answer(std::move(prepared));
  }
}

void Connection::begin_answer(Prepared prepared) {
  const ParsedRequest& parsed = prepared.parsed;
  for (const auto& stream : prepared.streams) context_.metrics.count_choices(stream->num_choices());
  answer_ = make_answer(parsed.form, request_id_, std::move(prepared.streams), *context_.engine);
  is_streaming_ = parsed.form.stream;
  if (is_streaming_) {
    is_chunked_ = parser_.request().version >= 11;
    is_keep_alive_ = is_keep_alive_ && is_chunked_;
    append_head({.content_type = "text/event-stream; charset=utf-8"});
    const std::string opening = answer_->opening();
    if (!opening.empty()) append_chunk(output_, is_chunked_, opening);
    set_deadline(context_.options.ping_interval);
    flush();
  }
  move_events();
}

void Connection::pump() {
  guard([this] { move_events(); });
}

void Connection::move_events() {
  if (is_sending_) return pump_content();
  if (!answer_ || (is_streaming_ && is_writing())) return;
  std::string& events = context_.events;
  events.clear();
  answer_->poll(events, kMaxBacklogBytes);
  if (!events.empty()) {
    num_response_bytes_ += events.size();
    append_chunk(output_, is_chunked_, events);
    set_deadline(context_.options.ping_interval);
  }
  if (answer_->finished()) {
    finish_answer();
    advance();
  } else {
    flush();
  }
}

void Connection::finish_answer() {
  if (!is_streaming_) {
    if (answer_->error()) return respond_error(*answer_->error());
    return respond(200, answer_->body());
  }
  append_last_chunk(output_, is_chunked_);
  if (answer_->error()) is_keep_alive_ = false;
  log_exchange(answer_->error() ? answer_->error()->status : 200, answer_->reason());
  end_exchange();
}

// What is of the request and the connection is added to what is of the answer.
void Connection::append_head(ResponseHead head) {
  const HttpRequest& request = parser_.request();
  const char* const methods = allowed_methods(target_of(request.path));
  const std::string cors = cors_lines(context_.options.cors, request, methods);
  head.version = request.version;
  if (parser_.state() != HttpParser::State::kDone) is_keep_alive_ = false;
  head.keep_alive = is_keep_alive_;
  head.request_id = request_id_;
  head.cors = cors;
  if (head.status == 204 || head.status == 405) head.allow = methods;
  output_ += response_head(head);
}

void Connection::respond(int status, std::string_view body, const char* content_type,
                         int retry_after_s) {
  append_head({.status = status,
               .content_type = body.empty() ? "" : content_type,
               .content_length = body.size(),
               .retry_after_s = retry_after_s});
  if (parser_.request().method != "HEAD") output_ += body;
  num_response_bytes_ = body.size();
  log_exchange(status, answer_ ? answer_->reason() : "-");
  end_exchange();
}

void Connection::respond_error(const HttpError& error) {
  const ErrorForm form = error_form_of(parser_.request().path);
  respond(told_status(error, form), error_json(error, form), "application/json",
          error.retry_after_s);
}

// The answer is in output_: on to the next request, or to the end of the connection.
void Connection::end_exchange() {
  if (answer_ && answer_->finished() && !answer_->error())
    context_.run_times.add((answer_->timings().total - answer_->timings().queued).count());
  answer_.reset();
  release();
  is_streaming_ = is_sending_ = false;
  StorageExchange::drop(std::move(storage_));
  refusal_.reset();
  request_id_.clear();
  key_name_.clear();
  num_request_bytes_ = num_response_bytes_ = 0;
  count_body(0);
  close_after_write_ = !is_keep_alive_ || context_.is_closing;
  parser_.reset();
  phase_ = Phase::kHead;
  set_deadline(context_.options.keep_alive_timeout);
  flush();
}

// Counts the request, and tells it to the log in one line: never what was asked or answered.
void Connection::log_exchange(int status, const char* reason) {
  const HttpRequest& request = parser_.request();
  const Target target = target_of(request.path);
  context_.metrics.count({handler_name(target), target == Target::kUnknown ? "-" : request.method,
                          status, std::chrono::duration<double>(Clock::now() - begin_).count(),
                          num_request_bytes_, num_response_bytes_});
  if (!context_.options.log) return;
  std::string line = "request id=" + (request_id_.empty() ? "-" : request_id_) +
                     " route=" + (request.path.empty() ? "-" : request.path.substr(0, 100)) +
                     " status=" + std::to_string(status) + " reason=" + reason;
  if (!key_name_.empty()) line += " key=" + key_name_;
  if (answer_) {
    const Usage usage = answer_->usage();
    line += " prompt_tokens=" + std::to_string(usage.prompt_tokens) +
            " completion_tokens=" + std::to_string(usage.completion_tokens) +
            " queued_s=" + seconds_text(answer_->timings().queued.count()) +
            " first_token_s=" + seconds_text(answer_->timings().first_token.count()) +
            " total_s=" + seconds_text(answer_->timings().total.count());
  }
  context_.log(is_probe(target) ? LogLevel::kDebug : LogLevel::kInfo, line);
}

// ---- Writing and closing

void Connection::flush() {
  if (is_writing() || phase_ == Phase::kClosed || phase_ == Phase::kLingering) return;
  const size_t num_bytes = output_.size();
  in_flight_.swap(output_);
  num_written_ = 0;
  // What fails now fails in on_writable again: nothing is closed below a function that goes on.
  static_cast<void>(write_some());
  if (is_writing()) return wait_writable();
  if (close_after_write_) return linger();
  arm_timer();
  // There may be more that this much output has held back.
  if (num_bytes >= kMaxBacklogBytes)
    asio::post(context_.io, [self = shared_from_this()] { self->guard([&] { self->go_on(); }); });
}

// What the socket takes at once; success where it takes no more just now.
Connection::BoostError Connection::write_some() {
  BoostError error;
  while (is_writing() && !error) {
    num_written_ += socket_.write_some(
        asio::buffer(in_flight_.data() + num_written_, in_flight_.size() - num_written_), error);
    if (num_written_ == in_flight_.size()) in_flight_.clear();
  }
  const bool is_full = error == asio::error::would_block || error == asio::error::try_again;
  return is_full ? BoostError() : error;
}

void Connection::wait_writable() {
  write_deadline_ = after(context_.options.write_stall_timeout);
  arm_timer();
  socket_.async_wait(StreamSocket::wait_write, [self = shared_from_this()](BoostError error) {
    self->guard([&] { self->on_writable(error); });
  });
}

void Connection::on_writable(BoostError error) {
  if (!error) error = write_some();
  if (error) return abort();
  if (is_writing()) return wait_writable();
  if (phase_ == Phase::kAnswering && is_streaming_) set_deadline(context_.options.ping_interval);
  go_on();
}

// The output is written: on with what waited for that.
void Connection::go_on() {
  flush();
  move_events();
  advance();
}

// Says that nothing more comes, and waits for the client to say the same: closing at once, with
// bytes of the client unread, would take the answer away from under it.
void Connection::linger() {
  if (is_peer_gone_) return close();
  BoostError ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
  phase_ = Phase::kLingering;
  input_.clear();
  set_deadline(context_.options.close_timeout);
  watch_socket();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  phase_ = Phase::kClosed;
  if (is_abandoned_) *is_abandoned_ = true;
  answer_.reset();
  StorageExchange::drop(std::move(storage_));
  release();
  count_body(0);
  BoostError ignored;
  socket_.close(ignored);
  timer_.cancel();
  context_.connections.erase(self);
  context_.on_connection_closed();
}

// ---- Time

void Connection::set_deadline(std::chrono::milliseconds limit) {
  deadline_ = after(limit);
  arm_timer();
}

// Deadlines mostly move away: a timer that rings early is set again then, which is cheaper than
// each time.
void Connection::arm_timer() {
  const Clock::time_point deadline = is_writing() ? write_deadline_ : deadline_;
  if (phase_ == Phase::kClosed || (is_timer_armed_ && timer_.expiry() <= deadline)) return;
  is_timer_armed_ = true;
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this()](BoostError error) {
    if (!error) self->guard([&] { self->on_timer(); });
  });
}

void Connection::on_timer() {
  is_timer_armed_ = false;
  if ((is_writing() ? write_deadline_ : deadline_) <= Clock::now()) on_deadline();
  arm_timer();
}

void Connection::on_deadline() {
  if (is_writing()) return abort();
  switch (phase_) {
    case Phase::kHead:
    case Phase::kBody:
      if (!parser_.has_started()) return close();
      return respond_error({408, "the request took too long to arrive", "", ""});
    case Phase::kAnswering:
      append_chunk(output_, is_chunked_, answer_->ping());
      set_deadline(context_.options.ping_interval);
      return flush();
    case Phase::kLingering:
      return close();
    case Phase::kClosed:
      return;
  }
}

}  // namespace stoker
