// OpenAI's batches without a server: requests from the lines of a file, answers to the lines of
// another. Many run at a time; each answer is written when it is whole. docs/batch.md says what the
// lines hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/batch_output.h"
#include "stoker/engine.h"
#include "stoker/log.h"
#include "stoker/result.h"

namespace stoker {

/// How far a batch is. A plain value.
struct BatchCounts {
  int64_t num_taken = 0;    ///< requests read so far: lines that are not blank
  int64_t num_skipped = 0;  ///< of these, answered by an earlier run
  int64_t num_written = 0;  ///< of these, answered or refused by this run
  int64_t num_failed = 0;   ///< of the written: everything but answers
  int64_t num_passing =
      0;  ///< of the failed: for a reason that may pass; made again by another run
  int64_t num_running = 0;
  int64_t prompt_tokens = 0;      ///< of the answers written
  int64_t completion_tokens = 0;  ///< of the answers written, and so far of what runs
};

/// What a run is allowed to do.
enum class BatchMode {
  kRun,
  kHold,    ///< takes no more lines; what is in the engine goes on
  kFinish,  ///< the same, and ends with kCancelled once that is done
};

struct BatchOptions {
  std::vector<std::string> served_model_names;  ///< as ServerOptions has them
  uint64_t seed = 0;                            ///< for the requests without one: batch_seed()
  size_t max_in_flight = 64;                    ///< lines that are in the engine at the same time
  size_t max_line_bytes = size_t{64} << 20;     ///< as a body of the server
  std::optional<int32_t> priority = {};         ///< of all requests, whatever they say
  int stop_descriptor = -1;                     ///< ends the run once it is readable; -1: none
  std::function<BatchMode()> mode = {};         ///< asked again and again; null: kRun
  std::chrono::milliseconds retry_period{100};  ///< of a request that the engine has no room for
  /// Tries of one that finds no room although nothing of this run is in the engine; 0: for ever.
  int max_lonely_tries = 100;
  LogSink log;                                       ///< may be null
  std::function<void(const BatchCounts&)> progress;  ///< may be null; called by run()
  std::chrono::milliseconds progress_period{10'000};
};

/// One run over an input. Used by one thread, which runs it, but for wake().
class Batch {
 public:
  /// Reads from the descriptor `input`. All must outlive the batch.
  Batch(Engine& engine, int input, BatchOutput& output, BatchOptions options);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Answers all requests; to be called once. What is wrong with one line is told in the output,
  /// and the others go on. Errors: kCancelled once `stop_descriptor` was readable, kIo of the input
  /// or output, kInternal when the engine has stopped. What still ran is then cancelled, and the
  /// output holds every answer that was whole.
  Result<void> run();

  BatchCounts counts() const;

  /// Has run() ask for its mode now. Any thread.
  void wake();

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
