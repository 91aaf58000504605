// Runs a model over given ids and writes down what it computed, for comparison with other
// implementations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

struct TraceOptions {
  std::vector<int32_t>
      chunks;  ///< rows of each forward pass, the last one repeating; empty: all at once. Each >= 1
  bool layers = false;        ///< also the values inside every layer
  int32_t decode_tokens = 0;  ///< then so many greedy tokens, one at a time
  bool drafts = false;        ///< with a round of the draft head before each of them
  int num_threads = 0;        ///< as EngineOptions
  ProgressSink progress;      ///< may be null; told after each pass
};

/// Writes a safetensors file: prompt.ids I64 [S], prompt.logits F32 [S, vocab], and with `layers`
/// the trace points of tools/reference/make_golden.py under its names and shapes. Index scores are
/// [S, final number of entries], -inf where not visible. With decode_tokens decode.prompt I64 [S],
/// decode.ids I64 [n], decode.margin F32 [n]; with `drafts` decode.pending and decode.at I64 [n],
/// decode.drafts I64 and decode.confidence F32 [n, block], as in make_golden.py: nothing that was
/// drafted is taken. Errors: as Engine::open, and kInvalidArgument for ids and numbers,
/// kUnsupported for drafts without a draft head, kIo and kNotFound for `out`.
Result<void> write_trace(const std::string& model, const std::vector<int32_t>& ids,
                         const TraceOptions& options, const std::string& out);

}  // namespace stoker
