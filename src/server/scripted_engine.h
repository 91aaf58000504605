// An Engine that answers what a test has written down: events with delays, failures, streams
// without end. Counts what the server does with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stoker/engine.h"

namespace stoker {

struct ScriptStep {
  Event event;
  std::chrono::milliseconds delay{0};  ///< after the step before
};

/// What becomes of one request.
struct Script {
  std::optional<Error> refusal;  ///< of submit
  std::vector<ScriptStep>
      steps;                 ///< without a finish in the last one, the stream never ends by itself
  bool repeat_last = false;  ///< for ever
  std::vector<int32_t> prompt_ids = {1, 2, 3};
  uint64_t seed = 7;  ///< of choice 0; each next one has one more
};

/// An event of one token with that text.
Event text_event(std::string text);
Event reasoning_event(std::string text);
/// The event that ends a stream; its usage says 3 prompt tokens and `completion_tokens`.
Event finish_event(FinishReason reason, int32_t completion_tokens,
                   std::optional<std::string> stop = std::nullopt);
/// The pieces one after the other, without delay, then finish_event(kStop).
Script script_of(std::vector<std::string> pieces);

/// Answers everything with "Hello."
Script hello(const Request& request);

/// Thread-safe. Its streams may outlive it.
class ScriptedEngine : public Engine {
 public:
  using Writer = std::function<Script(const Request&)>;
  using Saver = std::function<Result<SavedSnapshot>(const SaveSnapshot&)>;

  /// `writer` is called by submit, one call at a time.
  explicit ScriptedEngine(Writer writer);
  ~ScriptedEngine() override;

  const ModelInfo& model() const override { return model_; }
  /// "<id>".
  std::string token_bytes(int32_t id) const override { return "<" + std::to_string(id) + ">"; }
  /// {1, 2, 3}, or the ids of a TokenPrompt.
  Result<std::vector<int32_t>> encode(Prompt prompt) const override;
  /// "<id>" of each.
  Result<std::string> decode(const std::vector<int32_t>& ids) const override;
  Result<std::unique_ptr<Stream>> submit(Request request, std::function<void()> ready) override;
  EngineStats stats() const override;  ///< those that were set
  void reset_prefix_cache() override {}
  /// Level 2 is refused.
  Result<void> sleep(SleepLevel level, bool abort) override;
  void wake_up() override;
  void log_state() override {}
  Result<void> start_profile() override;
  /// Of "{}".
  Result<std::function<std::string()>> stop_profile() override;
  /// As set_saver() says; without, refused.
  Result<SavedSnapshot> save_snapshot(const SaveSnapshot& what) override {
    return saver_ ? saver_(what) : Engine::save_snapshot(what);
  }
  bool healthy() const override;
  void drain(std::chrono::milliseconds limit) override;

  void set_saver(Saver saver) { saver_ = std::move(saver); }  ///< before the first request
  void set_healthy(bool healthy);
  void set_stats(EngineStats stats);
  std::vector<Request> requests() const;  ///< all that were accepted
  int num_live_streams() const;           ///< not destroyed
  int num_running() const;                ///< have not told their end
  int64_t num_events_made() const;        ///< by all streams
  int64_t num_events_read() const;        ///< by poll
  int num_cancelled() const;              ///< were cancelled or destroyed before their end

  /// Waits until nothing lives any more; false after `limit`.
  bool wait_until_idle(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  /// Waits until that many requests were accepted in all; false after `limit`.
  bool wait_for_requests(size_t num_requests,
                         std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

 private:
  struct Shared;
  struct Feed;
  class FeedStream;

  void run();

  ModelInfo model_;
  Writer writer_;
  Saver saver_;
  std::shared_ptr<Shared> shared_;
  std::jthread thread_;
};

}  // namespace stoker
