// The answer to one completion request: reads the events of its streams and writes OpenAI's shapes,
// whole or as server-sent events. Knows no sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http_error.h"
#include "server/identity.h"
#include "server/request_parser.h"
#include "stoker/engine.h"

namespace stoker {

/// What every object of an answer says about itself.
struct AnswerHead {
  Route route = Route::kCompletions;
  std::string id;       ///< "cmpl-..." or "chatcmpl-..."
  int64_t created = 0;  ///< seconds of the Unix clock
  std::string model;    ///< the served name
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  int32_t num_choices = 1;  ///< of each stream; the best ones where it has more
  bool logprobs = false;
  bool prompt_logprobs = false;
  size_t num_top = 0;  ///< of the likeliest, with each token
  bool echo = false;
  bool has_answer = true;
  bool include_reasoning = true;
  bool names_tool = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;
};

/// The head of an answer to a request, made now. `request_id` is the part of the id behind its
/// kind.
AnswerHead head_of(const ParsedRequest& parsed, const std::string& request_id);

/// One answer, of some choices for each stream, numbered stream after stream. Not thread-safe: it
/// and its streams belong to one thread. Destroying it cancels what still runs.
class Answer {
 public:
  /// At least one stream; none null. Borrows the engine, for the texts of tokens.
  Answer(AnswerHead head, std::vector<std::unique_ptr<Stream>> streams, const Engine& engine);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// The events that open a stream, before any token: who speaks, for chat; the prompt, for echo.
  std::string opening();

  /// Reads what the streams have ready, without waiting, and appends the events of it to `out`,
  /// [DONE] included, until finished() or `out` has `max_bytes`. Without streaming, nothing is
  /// appended and all is read.
  void poll(std::string& out, size_t max_bytes);

  /// Every choice has its end, or one has failed.
  bool finished() const { return num_running_ == 0; }

  /// Why the answer failed. A stream has told its client by then.
  const std::optional<HttpError>& error() const { return error_; }

  /// The answer as one JSON object, where it was not streamed, is finished and has not failed.
  /// Once.
  std::string body();

  // For the log.
  Usage usage() const;                                       ///< so far, of all choices
  const Timings& timings() const { return timings_; }        ///< the longest of the choices
  const char* reason() const { return to_string(reason_); }  ///< of the choice that finished last

 private:
  struct Prompt;
  struct Choice;

  void read(Choice& choice, const Event& event, std::string& out);
  void write(Choice& choice, const Event& event, std::string& out);
  void fail(const std::optional<Error>& error, std::string& out);
  void append_delta(Choice& choice, const char* member, const std::string& text,
                    std::string& out) const;
  void append_calls(Choice& choice, const std::vector<CallPiece>& pieces, std::string& out);
  std::string calls_json(const Choice& choice) const;
  std::string finish_members(const Finish& finish) const;
  void append_end(Choice& choice, const std::string& text, std::string& out) const;
  void append_chunk(Choice& choice, const std::string& content, const std::string& end,
                    std::string& out) const;
  void append_usage_chunk(std::string& out) const;
  std::string choice_json(Choice& choice, size_t index) const;
  std::string prompt_logprobs_member(const Prompt& prompt) const;
  std::string prompt_ids_member(const Prompt& prompt) const;
  std::vector<Choice*> told_choices();

  AnswerHead head_;
  const Engine& engine_;
  std::string prefix_;  // of every object: {"id":...,"system_fingerprint":...
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;  // prompt after prompt
  size_t num_running_ = 0;
  Timings timings_;
  FinishReason reason_ = FinishReason::kCancelled;
  IdSource call_ids_;
  std::optional<HttpError> error_;
};

/// "stoker-" and the version.
std::string system_fingerprint();

/// {"prompt_tokens": ...}. Which tokens were reasoning is known, and told, only of a whole answer.
std::string usage_json(const Usage& usage, bool is_whole);

}  // namespace stoker
