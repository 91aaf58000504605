// Runs requests through the engine's steps one by one, and keeps what must be equal: the ids, and
// the bits of the logits that each was chosen from. Also knows each request's answer alone: on one
// thread, in one piece, without cache and replay.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "engine/stepper.h"

namespace stoker::testing {

/// What a request came to.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<uint64_t> logits;            ///< a hash of the bits behind each id
  std::vector<PositionLogprobs> logprobs;  ///< of each id, where asked for
  std::optional<engine::End> end;
  int64_t cached_tokens = 0;
  bool operator==(const Answer& other) const {
    return ids == other.ids && logits == other.logits && logprobs == other.logprobs &&
           end == other.end;
  }
};

/// A model with and without bounded replay.
class Models {
 public:
  /// "small" or "demo". Loaded once in a program.
  static const Models& get(const std::string& name);

  const Model& model(ReplayMode mode) const { return loaded_[static_cast<size_t>(mode)]->model(); }
  const LoadedModel& loaded(ReplayMode mode) const { return *loaded_[static_cast<size_t>(mode)]; }
  int32_t vocab_size() const { return loaded_[0]->info().vocab_size; }

 private:
  explicit Models(const std::string& path);
  std::vector<std::shared_ptr<const LoadedModel>> loaded_;  // by ReplayMode
};

/// Ids that look like nothing, the same for the same seed.
std::vector<int32_t> random_ids(const Models& models, uint32_t seed, int64_t length);

/// Greedy for even seeds, sampled with that seed for odd ones; for seeds of 2 and 3 modulo 4 with
/// penalties, bias, bans, more filters and log-probabilities.
engine::TokenRequest request_of(std::vector<int32_t> prompt, int32_t max_tokens, uint32_t seed);

/// An engine that is stepped by hand. Checks its books after every step.
class SteppedEngine {
 public:
  struct Options {
    int num_threads = 2;
    ReplayMode replay = ReplayMode::kExact;
    engine::EngineLimits limits = {.kv_budget_bytes = int64_t{64} << 20};
  };
  SteppedEngine(const Models& models, const Options& options);

  /// Queues a request; the number by which it is known here.
  size_t submit(const engine::TokenRequest& request);
  void cancel(size_t number);
  /// One step. False: nobody was there.
  bool step();
  /// Steps until all is done.
  void run();
  /// The running sequence of a request; null where it does not run.
  const engine::Sequence* sequence(size_t number);
  engine::Scheduler& scheduler() { return stepper_->scheduler(); }
  const engine::Metrics& metrics() const { return stepper_->metrics(); }
  const KvPlan& plan() const { return stepper_->plan(); }
  bool is_done() { return scheduler().running().empty() && scheduler().num_waiting() == 0; }

  /// What came of a request so far.
  const Answer& answer(size_t number);

 private:
  struct Entry {
    engine::SequenceKey key;
    std::shared_ptr<engine::TokenStream> stream;
    Answer answer;
  };
  std::vector<Entry> entries_;
  std::unique_ptr<engine::Stepper> stepper_;
};

/// The answer to a request that has the engine to itself, computed in one piece on one thread,
/// without cache; with the replay of the mode, of which kExact is run as kOff. Remembered.
const Answer& alone(const Models& models, const engine::TokenRequest& request,
                    ReplayMode mode = ReplayMode::kOff);

/// Equal ids and logits, or where they differ.
::testing::AssertionResult same(const Answer& actual, const Answer& expected);

}  // namespace stoker::testing
