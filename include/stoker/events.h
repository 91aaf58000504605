// What a caller gets back while a request runs: text as it comes, then one final event that says
// how it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/error.h"

namespace stoker {

enum class FinishReason {
  kStop,       ///< end of text or a stop string
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
  std::optional<std::string> stop;  ///< the stop string that was met
  std::optional<Error> error;       ///< with kError
  Usage usage;
  Timings timings;
  int32_t num_preemptions = 0;  ///< times that it lost its state to others, and ran again
};

/// One piece of an answer. Text pieces are whole UTF-8 and never hold a part of a stop string that
/// was met.
struct Event {
  std::vector<int32_t>
      ids;           ///< tokens chosen since the event before; none for one whose text is held back
  std::string text;  ///< to be appended to the answer; may be empty
  /// With the first token, where the request asked for them: log p of every prompt token but the
  /// first, given those before it. [prompt_tokens - 1], natural logarithms, at temperature 1.
  std::vector<float> prompt_logprobs;
  std::string reasoning;         ///< to be appended to the reasoning; may be empty
  std::optional<Finish> finish;  ///< on the last event only
};

}  // namespace stoker
