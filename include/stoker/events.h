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

namespace stoker {

enum class FinishReason {
  kStop,       ///< end of text, a stop string or a stop token
  kLength,     ///< max_tokens, or the context is full
  kCancelled,  ///< Stream::cancel, or the engine was drained
  kError,      ///< Finish::error says why
};

/// "stop", "length", "abort" or "error": the words of the HTTP interface. Static strings.
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
  int32_t num_preemptions = 0;  ///< times that it lost its state to others, and ran again
  /// With Request::receipt and kStop or kLength: what parse_receipt (stoker/receipt.h) reads, a
  /// JSON object on one line without its line feed. Else empty.
  std::string receipt;
};

/// To what a token's text belongs.
enum class TokenPart {
  kContent,
  kReasoning,
  kHidden,  ///< to nothing: markup, an end of text
};

/// What is told of a chosen token where log-probabilities are asked for.
struct TokenDetail {
  PositionLogprobs logprobs;
  TokenPart part = TokenPart::kContent;
  int64_t text_offset = 0;  ///< characters (code points) of that part before it
};

/// One piece of an answer. Text pieces are whole UTF-8 and never hold a part of a stop string that
/// was met.
struct Event {
  int32_t choice = 0;  ///< of the request's n
  std::vector<int32_t>
      ids;  ///< tokens chosen since the event before; none for one whose text is held back
  std::vector<TokenDetail> details;  ///< one for each of them, with Request::logprobs
  /// Tokens of this choice so far whose text is out, the first so many of all; a token that begins
  /// behind a stop string never is.
  int32_t num_shown = 0;
  std::string text;       ///< to be appended to the answer; may be empty
  std::string reasoning;  ///< to be appended to the reasoning; may be empty
  /// With the first token of choice 0, with Request::prompt_logprobs: of every prompt token but the
  /// first, given those before it. [prompt_tokens - 1]
  std::vector<PositionLogprobs> prompt_logprobs;
  std::optional<Finish> finish;  ///< on the last event of each choice
};

}  // namespace stoker
