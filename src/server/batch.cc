#include "server/batch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "server/batch_line.h"
#include "server/identity.h"
#include "server/line_reader.h"
#include "server/openai_answer.h"

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHealthPeriod{1000};  // how long a stopped engine may go unseen

/// Rung by other threads, heard by poll(). Lives as long as the last stream that may ring.
class Bell {
 public:
  Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() { close(descriptor_); }

  int descriptor() const { return descriptor_; }

  void ring() {
    if (!is_rung_.exchange(true)) eventfd_write(descriptor_, 1);
  }

  /// To be called before looking for what it was rung for.
  void hush() {
    eventfd_t ignored = 0;
    eventfd_read(descriptor_, &ignored);
    is_rung_ = false;
  }

 private:
  int descriptor_;
  std::atomic<bool> is_rung_{false};
};

bool is_readable(const pollfd& polled) {
  return (polled.revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

struct Batch::Impl {
  Impl(Engine& engine_in, int input_in, BatchOutput& output_in, BatchOptions options_in);

  /// A request whose streams are not all in the engine yet.
  struct Opening {
    std::string custom_id;
    ParsedRequest parsed;
    std::vector<std::unique_ptr<Stream>> streams;
    Clock::time_point next_try;
    int num_lonely_tries = 0;
  };

  /// A request that runs.
  struct Running {
    Running(Opening opening, std::string request_id_in, const Engine& engine)
        : custom_id(std::move(opening.custom_id)),
          request_id(std::move(request_id_in)),
          answer(opening.parsed.form, request_id, std::move(opening.streams), engine) {}

    std::string custom_id;
    std::string request_id;
    OpenAiAnswer answer;
  };

  Result<void> run();
  Result<bool> step();
  Result<void> collect();
  Result<void> take_lines();
  Result<void> take_line(std::string_view text);
  Result<void> take_request(std::string custom_id, const BatchLine& line);
  Result<void> open_streams();
  Result<std::unique_ptr<Stream>> submit(const Request& request);
  void start();
  Result<void> wait();
  void tell_progress();
  BatchCounts current_counts() const;

  Result<void> write_answer(Running& done);
  Result<void> write_error(const std::string& custom_id, const HttpError& error,
                           const std::optional<std::string>& request_id = std::nullopt);
  Result<void> write_line_error(std::optional<std::string> custom_id, const char* code,
                                const std::string& message);

  bool has_room() const {
    return mode == BatchMode::kRun && !opening && running.size() < options.max_in_flight;
  }

  Engine& engine;
  BatchOutput& output;
  const BatchOptions options;
  const int input;
  LineReader reader;
  const std::shared_ptr<Bell> bell = std::make_shared<Bell>();

  IdSet seen;
  IdSource ids;
  UnknownFields unknown_fields;
  std::optional<Opening> opening;
  std::vector<std::unique_ptr<Running>> running;
  int64_t line_number = 0;
  bool needs_input = true;  // no whole line is there
  bool is_input_end = false;
  bool is_stopped = false;
  BatchMode mode = BatchMode::kRun;
  Clock::time_point next_progress;
  BatchCounts counts;  // but for what runs
};

Batch::Impl::Impl(Engine& engine_in, int input_in, BatchOutput& output_in, BatchOptions options_in)
    : engine(engine_in),
      output(output_in),
      options([&] {
        if (options_in.served_model_names.empty()) {
          options_in.served_model_names.push_back(engine_in.model().name);
        }
        options_in.max_in_flight = std::max<size_t>(options_in.max_in_flight, 1);
        return std::move(options_in);
      }()),
      input(input_in),
      reader(input_in, options.max_line_bytes) {}

Result<void> Batch::Impl::run() {
  if (bell->descriptor() < 0) {
    return Error{ErrorCode::kResourceExhausted, std::string("eventfd: ") + std::strerror(errno),
                 ""};
  }
  next_progress = Clock::now() + options.progress_period;
  if (auto begun = output.begin(); !begun) return begun;
  while (true) {
    const auto is_over = step();
    if (!is_over) return is_over.error();
    if (*is_over) return output.finish();
    tell_progress();
    if (auto waited = wait(); !waited) return waited;
  }
}

// Does what can be done now; true: that was all.
Result<bool> Batch::Impl::step() {
  if (auto collected = collect(); !collected) return collected.error();
  if (options.mode) mode = options.mode();
  if (mode == BatchMode::kFinish) opening.reset();
  if (is_stopped || (mode == BatchMode::kFinish && running.empty()))
    return Error{ErrorCode::kCancelled, "interrupted", ""};
  if (!engine.healthy()) return Error{ErrorCode::kInternal, "the engine has stopped", ""};
  if (mode == BatchMode::kRun) {
    if (auto taken = take_lines(); !taken) return taken.error();
  }
  return is_input_end && running.empty() && !opening;
}

// Reads what the engine has ready, and writes the answers that are whole.
Result<void> Batch::Impl::collect() {
  bell->hush();
  std::string no_events;
  for (size_t i = 0; i < running.size();) {
    running[i]->answer.poll(no_events, SIZE_MAX);
    if (!running[i]->answer.finished()) {
      ++i;
      continue;
    }
    std::swap(running[i], running.back());
    const std::unique_ptr<Running> finished = std::move(running.back());
    running.pop_back();
    if (auto written = write_answer(*finished); !written) return written;
    if (opening) opening->next_try = Clock::now();
  }
  return {};
}

// Lines to requests, as long as there are lines and room.
Result<void> Batch::Impl::take_lines() {
  if (opening) {
    if (auto opened = open_streams(); !opened) return opened;
  }
  while (has_room() && !is_input_end) {
    std::string_view text;
    const LineReader::State state = reader.next(text);
    needs_input = state == LineReader::State::kNeedsFill;
    if (needs_input) return {};
    is_input_end = state == LineReader::State::kEnd;
    if (is_input_end) return {};
    ++line_number;
    if (state == LineReader::State::kTooLong) {
      ++counts.num_taken;
      const std::string limit = std::to_string(options.max_line_bytes);
      if (auto written = write_line_error({}, "line_too_long",
                                          "expected at most " + limit + " bytes, found more");
          !written) {
        return written;
      }
    } else if (!is_blank(text)) {
      ++counts.num_taken;
      if (auto taken = take_line(text); !taken) return taken;
    }
  }
  return {};
}

Result<void> Batch::Impl::take_line(std::string_view text) {
  std::optional<HttpError> error;
  std::string custom_id;
  try {
    const BatchLine line = parse_batch_line(text);
    if (!line.custom_id) return write_line_error({}, "invalid_line", line.error->message);
    custom_id = *line.custom_id;
    if (!seen.insert(custom_id)) {
      return write_line_error(custom_id, "duplicate_custom_id",
                              "expected a custom_id that no line before has, found " +
                                  json_quote(custom_id.substr(0, 200)));
    }
    if (output.is_finished(custom_id)) {
      ++counts.num_skipped;
      return {};
    }
    if (line.error) return write_error(custom_id, *line.error);
    return take_request(custom_id, line);
  } catch (const std::exception& exception) {
    error = to_http_error(exception);
  }
  opening.reset();
  if (custom_id.empty()) return write_line_error({}, "no_memory", error->message);
  return write_error(custom_id, *error);
}

Result<void> Batch::Impl::take_request(std::string custom_id, const BatchLine& line) {
  auto parsed = parse_request(line.route, line.body(), options.served_model_names);
  if (!parsed) return write_error(custom_id, to_http_error(parsed.error()));
  unknown_fields.tell(parsed->unknown_fields, options.log);
  if (parsed->form.stream) {
    return write_error(custom_id,
                       {400, "stream: expected false in a batch, found true", "stream", ""});
  }
  for (Request& request : parsed->requests) {
    if (!request.sampling.seed) request.sampling.seed = batch_seed(custom_id, options.seed);
    if (options.priority) request.priority = *options.priority;
  }
  opening.emplace(Opening{std::move(custom_id), *std::move(parsed), {}, Clock::now()});
  return open_streams();
}

// Hands the prompts of the opening request to the engine. Where it has no room for all of them, the
// rest waits.
Result<void> Batch::Impl::open_streams() {
  if (Clock::now() < opening->next_try) return {};
  const std::vector<Request>& requests = opening->parsed.requests;
  while (opening->streams.size() < requests.size()) {
    auto stream = submit(requests[opening->streams.size()]);
    if (stream) {
      opening->streams.push_back(*std::move(stream));
      opening->num_lonely_tries = 0;
      continue;
    }
    const ErrorCode code = stream.error().code;
    if (code == ErrorCode::kCancelled) return stream.error();
    // The engine sleeps: what was on its way when it fell asleep waits.
    const bool is_held = options.mode && options.mode() == BatchMode::kHold;
    if (code == ErrorCode::kResourceExhausted && is_held) {
      opening->next_try = Clock::now() + options.retry_period;
      return {};
    }
    const bool is_lonely = running.empty() && opening->streams.empty();
    if (code == ErrorCode::kOverloaded &&
        !(is_lonely && ++opening->num_lonely_tries == options.max_lonely_tries)) {
      opening->next_try = Clock::now() + options.retry_period;
      return {};
    }
    const std::string custom_id = std::move(opening->custom_id);
    opening.reset();
    return write_error(custom_id, to_http_error(stream.error()));
  }
  start();
  return {};
}

// A prompt that there is no memory for is that request's failure, not the run's.
Result<std::unique_ptr<Stream>> Batch::Impl::submit(const Request& request) {
  try {
    return engine.submit(request, [bell = bell] { bell->ring(); });
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kResourceExhausted, "no memory for the request", ""};
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, exception.what(), ""};
  }
}

// All streams of the opening request are there.
void Batch::Impl::start() {
  const ParsedRequest& parsed = opening->parsed;
  const std::string request_id = parsed.request_id ? *parsed.request_id : ids.next();
  running.push_back(std::make_unique<Running>(*std::move(opening), request_id, engine));
  opening.reset();
}

// Until there is something to do: an event of the engine, more input that there is room for, the
// signal to stop, or a time to look after something.
Result<void> Batch::Impl::wait() {
  const bool wants_input = has_room() && needs_input && !is_input_end;
  pollfd polled[] = {{bell->descriptor(), POLLIN, 0},
                     {options.stop_descriptor, POLLIN, 0},
                     {wants_input ? input : -1, POLLIN, 0}};
  Clock::time_point deadline = Clock::now() + kHealthPeriod;
  if (options.progress) deadline = std::min(deadline, next_progress);
  if (opening && mode == BatchMode::kRun) deadline = std::min(deadline, opening->next_try);
  const auto limit = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  if (poll(polled, std::size(polled), static_cast<int>(std::max<int64_t>(limit, 0))) < 0) {
    if (errno == EINTR) return {};
    return Error{ErrorCode::kIo, std::string("poll: ") + std::strerror(errno), ""};
  }
  is_stopped = is_readable(polled[1]);
  if (!is_stopped && is_readable(polled[2])) return reader.fill().with("the input");
  return {};
}

void Batch::Impl::tell_progress() {
  if (!options.progress || Clock::now() < next_progress) return;
  options.progress(current_counts());
  next_progress = Clock::now() + options.progress_period;
}

BatchCounts Batch::Impl::current_counts() const {
  BatchCounts all = counts;
  all.num_running = static_cast<int64_t>(running.size());
  for (const auto& each : running) all.completion_tokens += each->answer.usage().completion_tokens;
  return all;
}

Result<void> Batch::Impl::write_answer(Running& done) {
  if (done.answer.error()) {
    return write_error(done.custom_id, *done.answer.error(), done.request_id);
  }
  auto written = output.append(
      response_line(ids.next(), {done.custom_id, done.request_id, 200, done.answer.body()}));
  if (!written) return written;
  const Usage usage = done.answer.usage();
  ++counts.num_written;
  counts.prompt_tokens += usage.prompt_tokens;
  counts.completion_tokens += usage.completion_tokens;
  return {};
}

Result<void> Batch::Impl::write_error(const std::string& custom_id, const HttpError& error,
                                      const std::optional<std::string>& request_id) {
  auto written =
      output.append(response_line(ids.next(), {custom_id, request_id ? *request_id : ids.next(),
                                               error.status, error_json(error)}));
  if (!written) return written;
  ++counts.num_written;
  ++counts.num_failed;
  if (!is_final_status(error.status)) ++counts.num_passing;
  return {};
}

Result<void> Batch::Impl::write_line_error(std::optional<std::string> custom_id, const char* code,
                                           const std::string& message) {
  auto written = output.append(error_line(
      ids.next(),
      {std::move(custom_id), code, "line " + std::to_string(line_number) + ": " + message}));
  if (!written) return written;
  ++counts.num_written;
  ++counts.num_failed;
  return {};
}

Batch::Batch(Engine& engine, int input, BatchOutput& output, BatchOptions options)
    : impl_(std::make_unique<Impl>(engine, input, output, std::move(options))) {}

Batch::~Batch() = default;

Result<void> Batch::run() {
  Result<void> result = impl_->run();
  impl_->opening.reset();
  impl_->running.clear();
  return result;
}

BatchCounts Batch::counts() const {
  return impl_->current_counts();
}

void Batch::wake() {
  impl_->bell->ring();
}

}  // namespace stoker
