// What the benchmarks of the engine share: how they ask, how they time, and the JSON that they
// give. Each is one function; engine_bench.cc is the list.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "base/json.h"
#include "stoker/engine.h"

namespace stoker::bench {

/// What bench/run says.
struct Setup {
  std::string model;  ///< directory of a checkpoint without a tokenizer
  std::string slice;  ///< of one at the released widths; empty: what needs it is left out
  int num_threads = 1;
  bool quick = false;  ///< small sizes: shows that it works, its figures mean nothing
};

using Ids = std::vector<int32_t>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin);

/// What the machine did since it was made: how many cores this process kept busy, and how many
/// others did. Figures mean something where the latter is next to nothing.
class MachineUse {
 public:
  MachineUse();
  /// {"seconds": .., "own_cores": .., "other_cores": ..}; the last is null where the system does
  /// not say.
  Json read() const;

 private:
  Clock::time_point begin_;
  double own_s_;
  std::optional<double> all_s_;
};

/// Progress, on standard error.
void say(const std::string& line);

/// The same ids for the same seed, none of them a control token. The model knows 512.
Ids random_ids(uint32_t seed, int64_t count);
Ids joined(Ids head, const Ids& tail);

/// {"min": .., "median": .., "max": ..}. values: at least one.
Json spread(std::vector<double> values);
double median(std::vector<double> values);

Json integers(const std::vector<int64_t>& values);
/// With so many significant digits as mean something.
Json number(double value);

/// An engine as anybody opens it, but for the memory, which has room for all that is asked.
EngineOptions options_for(const Setup& setup);

/// Asks for one answer and waits for its end. The answer is greedy. Errors: those of submit, and of
/// an answer that ended by one.
Result<Finish> ask(Engine& engine, Ids prompt, int32_t max_tokens);

/// Positions of index keys that all rows in [begin, end) of a prompt score, the rows from late_from
/// on also in the layers after the last KV source.
int64_t entries_scored(const ModelConfig& config, int64_t begin, int64_t end, int64_t late_from);

/// Seconds of one worker to score an entry for one token and to choose among the scores, measured
/// on `num_entries` keys in blocks, for as many tokens at once as the model takes of a prompt.
double seconds_per_entry(const ModelConfig& config, int64_t num_entries);

// The benchmarks. Each gives the object of its figures.

/// Tokens a second of 1 to 64 sequences that decode, and how often a step reads each weight.
Result<Json> throughput(const Setup& setup);
/// Time to the first token: cold, behind a finished request, behind the head of a longer one.
Result<Json> prefix(const Setup& setup);
/// Rows of a prompt a second under each mode of bounded replay.
Result<Json> replay(const Setup& setup);
/// Time of a token by the length of its context, and what of it is index scoring.
Result<Json> decode(const Setup& setup);
/// Memory and time of a step, by tenths of 10,000 steps in which requests come and go.
Result<Json> steady(const Setup& setup);
/// Tokens a second with and without drafts, of the demo and of the slice.
Result<Json> drafts(const Setup& setup);

}  // namespace stoker::bench
