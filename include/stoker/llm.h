// The offline door: many requests in one call, their answers in the same order. For programs that
// work through a list; who answers people as they come uses Engine and its streams
// (stoker/engine.h), which this stands on.
//
// The shortest program (examples/generate.cc):
//
//     auto llm = stoker::LLM::open(model);
//     if (!llm) return fail(llm.error());
//     for (const auto& answer : llm->generate_texts(texts, like)) {
//       if (!answer) return fail(answer.error());
//       std::cout << answer->text << "\n";
//     }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/engine.h"
#include "stoker/events.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// One answer. A plain value.
struct Choice {
  std::vector<int32_t> ids;          ///< every token chosen, those without text included
  std::vector<TokenDetail> details;  ///< of each of them, with Request::logprobs
  int32_t num_shown = 0;  ///< of these, up to the last one of which something is in the text
  std::string text;
  std::string reasoning;  ///< of a chat with thinking
  /// That the answer makes, with ids "call_0", "call_1", ...; the last is not whole where the
  /// answer was cut off in it.
  std::vector<ToolCall> calls;
  Finish finish;  ///< kStop or kLength; kCancelled after a stop: all above may be empty
};

/// What came of one request: its first choice, and the others. A plain value.
struct Generation : Choice {
  std::vector<int32_t> prompt_ids;                ///< the prompt as the model read it
  std::vector<PositionLogprobs> prompt_logprobs;  ///< with Request::prompt_logprobs, as in Event
  uint64_t seed = 0;                              ///< the request's, or the one drawn for it
  std::vector<Choice> others;                     ///< choices 1 .. n - 1
};

/// How far a call is.
struct GenerateProgress {
  size_t num_finished = 0;  ///< requests, refused ones included
  size_t num_requests = 0;
  int64_t num_tokens = 0;  ///< chosen so far, of all requests
};

/// What a caller sees while a call runs, on its own thread. Each function may be null, and returns
/// whether to go on: false stops the call, and no function is called again. What one throws leaves
/// the call, and cancels its requests.
struct Watch {
  /// Each event of a request, in the order of that request; index: its place in the input. What is
  /// appended from events is what the Generation holds. Of a chat (examples/chat_stream.cc):
  ///
  ///     stoker::Watch watch;
  ///     watch.on_event = [](size_t, const stoker::Event& event) {
  ///       std::cout << event.text << std::flush;
  ///       return true;
  ///     };
  std::function<bool(size_t index, const Event& event)> on_event = {};

  /// After events came or requests were refused; the last time with all finished.
  std::function<bool(const GenerateProgress& progress)> on_progress = {};
};

/// A model that answers lists of requests. May be moved; its calls may come from several threads at
/// a time, and return when all their requests have ended. Results do not depend on what else is in
/// a call: each is what Engine::submit gives for its request alone.
///
/// Every call returns one result per request, in their order. A Generation: the request ran to its
/// end, or the call was stopped or its engine drained. An Error: the request was refused (that of
/// Engine::submit, with its field; the others run), it failed (that of Finish::error), or the
/// engine ended in a fault (kInternal, for all that had not ended). Never kOverloaded: a call keeps
/// a bounded number of requests in the engine, and waits for room. Timings and
/// time limits begin when the engine takes a request, which it does in their order.
class LLM {
 public:
  /// Opens a model as Engine::open does, with its errors. A call waits where `max_queue` requests
  /// wait already: a small one costs a little time and nothing else; 0 is taken as 1.
  static Result<LLM> open(const std::string& model, EngineOptions options = {});

  /// Over an engine that is there, not null, whose queue holds at least one request.
  /// max_in_flight: requests of a call that the engine has at a time, at least 1; more than it runs
  /// at a time, so that it never waits for the next.
  explicit LLM(std::unique_ptr<Engine> engine, size_t max_in_flight = 512);

  /// The engine, to submit beside the calls, or to drain it from another thread. Lives as long as
  /// this.
  Engine& engine() { return *engine_; }
  const ModelInfo& model() const { return engine_->model(); }

  /// The general form: each request with its own prompt, sampling and limits.
  std::vector<Result<Generation>> generate(std::vector<Request> requests, const Watch& watch = {});

  // The short forms: `like` is a request for all, whose prompt is replaced. A seed in it holds for
  // each: equal prompts then get equal answers.

  /// Continues texts, each after the token that begins a text, as `stoker generate --prompt`.
  std::vector<Result<Generation>> generate_texts(std::vector<std::string> texts,
                                                 const Request& like = {}, const Watch& watch = {});

  /// Continues token ids, nothing added.
  std::vector<Result<Generation>> generate_ids(std::vector<std::vector<int32_t>> prompts,
                                               const Request& like = {}, const Watch& watch = {});

  /// Answers conversations. To go on with one, append the answer and what is said next
  /// (examples/chat_stream.cc):
  ///
  ///     conversation.messages.push_back({"assistant", {answer->text}, answer->reasoning});
  std::vector<Result<Generation>> chat(std::vector<ChatPrompt> conversations,
                                       const Request& like = {}, const Watch& watch = {});
  Result<Generation> chat(ChatPrompt conversation, const Request& like = {},
                          const Watch& watch = {});

 private:
  std::unique_ptr<Engine> engine_;
  size_t max_in_flight_;
};

}  // namespace stoker
