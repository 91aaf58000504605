#include "server/scripted_engine.h"

#include <algorithm>
#include <deque>

#include "stoker/version.h"

namespace stoker {

// The library's own are with the real engine, which these tests do without.
const char* version() {
  return "test";
}

const char* to_string(FinishReason reason) {
  constexpr const char* kNames[] = {"stop", "length", "abort", "error", "tool_calls", "repetition"};
  return kNames[static_cast<int>(reason)];
}

using Clock = std::chrono::steady_clock;

// One lock for everything: simple, and enough for tests.
struct ScriptedEngine::Shared {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<std::shared_ptr<Feed>> feeds;  // of streams that are not destroyed
  std::vector<Request> requests;
  int64_t num_events_made = 0;
  int64_t num_events_read = 0;
  int num_cancelled = 0;
  EngineStats stats;
  bool is_healthy = true;
  bool is_draining = false;
  bool is_profiling = false;
  bool is_stopping = false;
};

struct ScriptedEngine::Feed {
  Script script;
  std::function<void()> ready;
  size_t next_step = 0;
  Clock::time_point due;
  std::deque<Event> events;
  int32_t num_choices = 1;
  int32_t num_running = 1;   // choices
  bool is_finished = false;  // the last event is in `events` or was read
  bool is_cancelled = false;

  void emit(Event event) {
    if (event.finish) {
      event.finish->seed = script.seed + static_cast<uint64_t>(event.choice);
      --num_running;
    }
    is_finished = num_running == 0;
    events.push_back(std::move(event));
    if (ready) ready();
  }

  bool has_step() const { return !is_finished && next_step < script.steps.size(); }

  void step() {
    emit(script.steps[next_step].event);
    if (next_step + 1 < script.steps.size() || !script.repeat_last) ++next_step;
    if (has_step()) due = Clock::now() + script.steps[next_step].delay;
  }

  // Returns whether that ended something.
  bool cancel() {
    if (is_finished || is_cancelled) return false;
    is_cancelled = true;
    num_running = 1;
    emit(finish_event(FinishReason::kCancelled, 0));
    return true;
  }
};

class ScriptedEngine::FeedStream : public Stream {
 public:
  FeedStream(std::shared_ptr<Shared> shared, std::shared_ptr<Feed> feed)
      : shared_(std::move(shared)), feed_(std::move(feed)) {}

  ~FeedStream() override {
    const std::scoped_lock lock(shared_->mutex);
    feed_->ready = nullptr;
    if (feed_->cancel()) ++shared_->num_cancelled;
    std::erase(shared_->feeds, feed_);
    shared_->changed.notify_all();
  }

  std::optional<Event> poll() override {
    const std::scoped_lock lock(shared_->mutex);
    if (feed_->events.empty()) return std::nullopt;
    Event event = std::move(feed_->events.front());
    feed_->events.pop_front();
    ++shared_->num_events_read;
    return event;
  }

  std::optional<Event> wait(std::chrono::milliseconds /*limit*/) override { return poll(); }

  void cancel() override {
    const std::scoped_lock lock(shared_->mutex);
    if (feed_->cancel()) ++shared_->num_cancelled;
    shared_->changed.notify_all();
  }

  const std::vector<int32_t>& prompt_ids() const override { return feed_->script.prompt_ids; }
  uint64_t seed() const override { return feed_->script.seed; }
  int32_t num_choices() const override { return feed_->num_choices; }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Feed> feed_;
};

Event text_event(std::string text) {
  Event event;
  event.ids = {42};
  event.text = std::move(text);
  return event;
}

Event reasoning_event(std::string text) {
  Event event;
  event.ids = {43};
  event.reasoning = std::move(text);
  return event;
}

Event finish_event(FinishReason reason, int32_t completion_tokens,
                   std::optional<std::string> stop) {
  Finish finish;
  finish.reason = reason;
  finish.stop = std::move(stop);
  finish.usage.prompt_tokens = 3;
  finish.usage.completion_tokens = completion_tokens;
  Event event;
  event.finish = std::move(finish);
  return event;
}

Script script_of(std::vector<std::string> pieces) {
  Script script;
  const auto num_tokens = static_cast<int32_t>(pieces.size()) + 1;
  for (std::string& piece : pieces) script.steps.push_back({text_event(std::move(piece))});
  script.steps.push_back({finish_event(FinishReason::kStop, num_tokens)});
  return script;
}

Script hello(const Request& /*request*/) {
  return script_of({"Hel", "lo."});
}

ScriptedEngine::ScriptedEngine(Writer writer)
    : writer_(std::move(writer)), shared_(std::make_shared<Shared>()) {
  model_.name = "scripted";
  model_.path = "/models/scripted";
  model_.vocab_size = 1000;
  model_.max_context_tokens = 4096;
  model_.has_text = true;
  model_.has_chat = true;
  model_.eos_ids = {1};
  thread_ = std::jthread([this] { run(); });
}

ScriptedEngine::~ScriptedEngine() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->is_stopping = true;
    for (const auto& feed : shared_->feeds) feed->cancel();
    shared_->changed.notify_all();
  }
  thread_.join();
}

Result<std::vector<int32_t>> ScriptedEngine::encode(Prompt prompt) const {
  if (const auto* tokens = std::get_if<TokenPrompt>(&prompt)) return tokens->ids;
  return std::vector<int32_t>{1, 2, 3};
}

Result<std::string> ScriptedEngine::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += token_bytes(id);
  return text;
}

Result<std::unique_ptr<Stream>> ScriptedEngine::submit(Request request,
                                                       std::function<void()> ready) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->is_draining) return Error{ErrorCode::kCancelled, "the engine is being drained", ""};
  auto feed = std::make_shared<Feed>();
  feed->script = writer_(request);
  if (feed->script.refusal) return *feed->script.refusal;
  feed->num_choices = feed->num_running = request.n;
  feed->ready = std::move(ready);
  if (feed->has_step()) feed->due = Clock::now() + feed->script.steps.front().delay;
  shared_->requests.push_back(std::move(request));
  shared_->feeds.push_back(feed);
  shared_->changed.notify_all();
  return std::unique_ptr<Stream>(std::make_unique<FeedStream>(shared_, std::move(feed)));
}

// Takes each step when it is due.
void ScriptedEngine::run() {
  std::unique_lock lock(shared_->mutex);
  while (!shared_->is_stopping) {
    auto next = Clock::now() + std::chrono::hours(1);
    for (const auto& feed : shared_->feeds) {
      if (!feed->has_step()) continue;
      if (feed->due <= Clock::now()) {
        feed->step();
        ++shared_->num_events_made;
        shared_->changed.notify_all();
      }
      if (feed->has_step()) next = std::min(next, feed->due);
    }
    shared_->changed.wait_until(lock, next);
  }
}

bool ScriptedEngine::healthy() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->is_healthy;
}

void ScriptedEngine::set_healthy(bool healthy) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->is_healthy = healthy;
}

void ScriptedEngine::set_stats(EngineStats stats) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->stats = std::move(stats);
}

EngineStats ScriptedEngine::stats() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->stats;
}

Result<void> ScriptedEngine::sleep(SleepLevel level, bool abort) {
  const std::scoped_lock lock(shared_->mutex);
  if (level == SleepLevel::kWeights)
    return Error{ErrorCode::kUnsupported, "level: expected 0 or 1, found 2", "level"};
  shared_->stats.sleep_level = static_cast<int32_t>(level);
  shared_->stats.has_released_memory = true;
  if (!abort) return {};
  for (const auto& feed : shared_->feeds) {
    if (feed->cancel()) ++shared_->num_cancelled;
  }
  return {};
}

void ScriptedEngine::wake_up() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->stats.sleep_level = -1;
  shared_->stats.has_released_memory = false;
}

Result<void> ScriptedEngine::start_profile() {
  const std::scoped_lock lock(shared_->mutex);
  if (std::exchange(shared_->is_profiling, true))
    return Error{ErrorCode::kInvalidArgument, "a profile was started already", ""};
  return {};
}

Result<std::function<std::string()>> ScriptedEngine::stop_profile() {
  const std::scoped_lock lock(shared_->mutex);
  if (!std::exchange(shared_->is_profiling, false))
    return Error{ErrorCode::kInvalidArgument, "no profile was started", ""};
  return std::function<std::string()>([] { return std::string("{}"); });
}

void ScriptedEngine::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  shared_->is_draining = true;
  const auto all_finished = [this] {
    return std::all_of(shared_->feeds.begin(), shared_->feeds.end(),
                       [](const auto& feed) { return feed->is_finished; });
  };
  shared_->changed.wait_for(lock, limit, all_finished);
  for (const auto& feed : shared_->feeds) {
    if (feed->cancel()) ++shared_->num_cancelled;
  }
}

std::vector<Request> ScriptedEngine::requests() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->requests;
}

int ScriptedEngine::num_live_streams() const {
  const std::scoped_lock lock(shared_->mutex);
  return static_cast<int>(shared_->feeds.size());
}

int ScriptedEngine::num_running() const {
  const std::scoped_lock lock(shared_->mutex);
  return static_cast<int>(std::count_if(shared_->feeds.begin(), shared_->feeds.end(),
                                        [](const auto& feed) { return !feed->is_finished; }));
}

int64_t ScriptedEngine::num_events_made() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->num_events_made;
}

int64_t ScriptedEngine::num_events_read() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->num_events_read;
}

int ScriptedEngine::num_cancelled() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->num_cancelled;
}

bool ScriptedEngine::wait_until_idle(std::chrono::milliseconds limit) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [this] { return shared_->feeds.empty(); });
}

bool ScriptedEngine::wait_for_requests(size_t num_requests, std::chrono::milliseconds limit) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit,
                                   [&] { return shared_->requests.size() >= num_requests; });
}

}  // namespace stoker
