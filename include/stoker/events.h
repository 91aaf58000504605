// What a caller gets back while a request runs: text as it comes, then one final event that says
// how it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/error.h"
#include "stoker/logprobs.h"
#include "stoker/request.h"

namespace stoker {

enum class FinishReason {
  kStop,        ///< end of text, a stop string or a stop token
  kLength,      ///< max_tokens, or the context is full
  kCancelled,   ///< Stream::cancel, or the engine was drained
  kError,       ///< Finish::error says why
  kCalls,       ///< end of text, or of the calls, behind a whole call
  kRepetition,  ///< Request::repetition_detection
};

/// "stop", "length", "abort", "error", "tool_calls" or "repetition": the words of the HTTP
/// interface. Static strings.
const char* to_string(FinishReason reason);

using Seconds = std::chrono::duration<double>;

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;    ///< of these, taken from the prefix cache
  int64_t computed_tokens = 0;  ///< rows that the model ran, again after a preemption too
  int32_t completion_tokens =
      0;  ///< every token chosen, end of text and a stop string's tokens included
  int32_t reasoning_tokens = 0;  ///< of these, up to and including the one that ends the reasoning
};

/// Durations from the moment of submission.
struct Timings {
  Seconds queued{};       ///< until the first step that held a row of it
  Seconds first_token{};  ///< until the first token was chosen
  Seconds total{};        ///< until the last one
};

struct Finish {
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop;    ///< the stop string that was met
  std::optional<int32_t> stop_token;  ///< or the one of Request::stop_token_ids
  std::optional<Error> error;         ///< with kError
  uint64_t seed = 0;  ///< of this choice: a request with it and n = 1 gives the same answer
  Usage usage;
  Timings timings;
  int64_t verified_drafts = 0;  ///< drafted tokens that were run with it,
  int64_t accepted_drafts = 0;  ///< and of these, those that are tokens of the answer
  /// The last call was cut off by an end of text: its markup. Who tells whole answers puts it
  /// behind the text and leaves that call out, so that nothing is lost.
  std::string unfinished_call;
  int32_t num_preemptions = 0;  ///< times that it lost its state to others, and ran again
  /// With Request::receipt, unless kCancelled or kError: what parse_receipt (stoker/receipt.h)
  /// reads, a JSON object on one line without its line feed. Else empty.
  std::string receipt;
};

/// To what a token's text belongs.
enum class TokenPart {
  kContent,
  kReasoning,
  kHidden,  ///< to nothing: markup, calls, an end of text
};

/// What is told of a chosen token where log-probabilities are asked for.
struct TokenDetail {
  PositionLogprobs logprobs;
  TokenPart part = TokenPart::kContent;
  int64_t text_offset = 0;  ///< characters (code points) of that part before it
};

/// A piece of a call that an answer makes. Those of one call follow each other.
struct CallPiece {
  int32_t call = 0;                      ///< of the answer's, from 0
  std::optional<std::string> name = {};  ///< of the tool; on the first piece alone
  std::string arguments = {};            ///< to be appended: in the end JSON of an object
  bool is_last = false;                  ///< the call is whole
};

/// The calls of an answer, collected from its events. A plain value.
struct CollectedCalls {
  std::vector<ToolCall> calls;  ///< without ids
  bool is_cut = false;          ///< the last one is not whole

  void add(const std::vector<CallPiece>& pieces) {
    for (const CallPiece& piece : pieces) {
      if (piece.name) calls.push_back({{}, *piece.name, {}});
      calls.back().arguments += piece.arguments;
      is_cut = !piece.is_last;
    }
  }

  /// The answer is over: what is to be put behind its text. A call that becomes text is left out.
  std::string finish(const Finish& finish) {
    if (finish.unfinished_call.empty()) return {};
    if (is_cut) calls.pop_back();
    is_cut = false;
    return finish.unfinished_call;
  }
};

/// How much of a prompt is read.
struct PromptProgress {
  int32_t total_tokens = 0;      ///< of the prompt
  int32_t cached_tokens = 0;     ///< of these, taken from the prefix cache
  int32_t processed_tokens = 0;  ///< read so far, the cached ones included
  Seconds time{};                ///< since the first step that held a row of it
};

/// One piece of an answer. Text pieces are whole UTF-8 and never hold a part of a stop string that
/// was met.
struct Event {
  int32_t choice = 0;  ///< of the request's n
  /// Tokens chosen since the event before, as far as it is known to what they belong: what may be
  /// the beginning of markup waits.
  std::vector<int32_t> ids;
  std::vector<TokenDetail> details;  ///< one for each of them, with Request::logprobs
  /// Tokens of this choice so far whose text is out, the first so many of all; a token that begins
  /// behind a stop string never is.
  int32_t num_shown = 0;
  std::string text;  ///< to be appended to the answer; may be empty
  std::string
      reasoning;  ///< to be appended to the reasoning, which comes before text; may be empty
  std::vector<CallPiece> calls;  ///< behind the text
  /// With the first token of choice 0, with Request::prompt_logprobs: of every prompt token but the
  /// first, given those before it. [prompt_tokens - 1]
  std::vector<PositionLogprobs> prompt_logprobs;
  /// Of choice 0, with Request::return_progress: after each step that reads a part of its prompt,
  /// the last one included; of steps that came since the event before the latest alone.
  std::optional<PromptProgress> prompt_progress;
  std::optional<Finish> finish;  ///< on the last event of each choice
};

}  // namespace stoker
