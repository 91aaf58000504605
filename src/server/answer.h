// The answer to one request for the engine: reads the events of its streams, counts and collects
// what they say, and notices how it ends. The shape in which a client is told, whole or as
// server-sent events, is its kinds': OpenAiAnswer's, AnthropicAnswer's. Knows no sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http_error.h"
#include "stoker/engine.h"

namespace stoker {

/// One answer, of some choices for each stream, numbered stream after stream. Not thread-safe: it
/// and its streams belong to one thread. Destroying it cancels what still runs.
class Answer {
 public:
  virtual ~Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// The events that open a stream, before any token; may be empty.
  virtual std::string opening() = 0;

  /// What a stream says when it has been silent for long, so that nobody takes it for dead.
  virtual const char* ping() const = 0;

  /// Reads what the streams have ready, without waiting, and appends the events of it to `out`, the
  /// last one included, until finished() or `out` has `max_bytes`. Without streaming, nothing is
  /// appended and all is read.
  void poll(std::string& out, size_t max_bytes);

  /// Cancels what still runs: it fails, once the engine has said so.
  void abort();

  /// Every choice has its end, or one has failed.
  bool finished() const { return num_running_ == 0; }

  /// Why the answer failed. A stream has told its client by then.
  const std::optional<HttpError>& error() const { return error_; }

  /// The answer as one JSON object, where it was not streamed, is finished and has not failed.
  /// Once.
  virtual std::string body() = 0;

  // For the log.
  Usage usage() const;                                       ///< so far, of all choices
  const Timings& timings() const { return timings_; }        ///< the longest of the choices
  const char* reason() const { return to_string(reason_); }  ///< of the choice that finished last

 protected:
  /// One of the choices, as far as it was read.
  struct Choice {
    size_t index = 0;   ///< among all
    size_t prompt = 0;  ///< the stream that it is of
    int32_t num_tokens = 0;
    std::string reasoning = {};  ///< without streaming: all so far
    std::string text = {};       ///< the same
    CollectedCalls calls = {};   ///< the same
    std::optional<Finish> finish = {};
  };

  /// At least one stream; none null. Without `has_answer` the prompts alone are of interest: tokens
  /// that the engine chose behind them are neither told nor counted.
  Answer(std::vector<std::unique_ptr<Stream>> streams, bool is_streamed, bool has_answer);

  /// Told of each event that is no failure, when `choice` has it already; streamed or not. May take
  /// parts of the event.
  virtual void tell(Choice& choice, Event& event, std::string& out) = 0;

  /// Told of a failure, once, where the answer is streamed: nothing comes behind it.
  virtual void tell_failure(const HttpError& error, std::string& out) const = 0;

  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }
  std::vector<Choice>& choices() { return choices_; }  ///< stream after stream; as many as ever
  const std::vector<Choice>& choices() const { return choices_; }
  bool is_streamed() const { return is_streamed_; }

 private:
  void read(Choice& choice, Event& event, std::string& out);
  void fail(const std::optional<Error>& error, std::string& out);
  void collect(Choice& choice, const Event& event) const;

  const std::vector<std::unique_ptr<Stream>> streams_;
  const bool is_streamed_;
  const bool has_answer_;
  std::vector<Choice> choices_;
  std::vector<int32_t> num_running_of_;  // stream: of its choices
  size_t num_running_ = 0;
  Timings timings_;
  FinishReason reason_ = FinishReason::kCancelled;
  bool is_aborted_ = false;
  std::optional<HttpError> error_;
};

}  // namespace stoker
