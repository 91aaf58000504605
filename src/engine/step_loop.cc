#include "engine/step_loop.h"

#include <exception>
#include <future>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/thread_name.h"
#include "base/try.h"

namespace stoker::engine {
namespace {

constexpr std::chrono::seconds kStepLimit{60};

// What it throws is for who waits: the steps go on.
void do_errand(Errand& errand) {
  try {
    errand.work();
    errand.done.set_value();
  } catch (...) {
    errand.done.set_exception(std::current_exception());
  }
}

}  // namespace

Result<std::unique_ptr<StepLoop>> StepLoop::create(const Model& model, int num_threads,
                                                   const EngineLimits& limits) {
  TRY_ASSIGN(std::unique_ptr<Stepper> stepper, Stepper::create(model, num_threads, limits));
  return std::unique_ptr<StepLoop>(new StepLoop(std::move(stepper), limits));
}

StepLoop::StepLoop(std::unique_ptr<Stepper> stepper, const EngineLimits& limits)
    : inbox_(std::make_shared<Inbox>(limits.max_queue)), stepper_(std::move(stepper)) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    name_this_thread("engine");
    loop(stop);
  });
}

StepLoop::~StepLoop() {
  stop();
}

void StepLoop::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<std::shared_ptr<TokenStream>>> StepLoop::submit(
    std::vector<TokenRequest> requests, const std::function<void()>& ready) {
  std::vector<std::shared_ptr<TokenStream>> streams;
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (TokenRequest& request : requests) {
    streams.push_back(std::make_shared<TokenStream>(inbox_, ready));
    TRY_ASSIGN(auto sequence, stepper_->sequence_of(std::move(request), streams.back()));
    sequences.push_back(std::move(sequence));
  }
  if (auto queued = inbox_->submit(std::move(sequences)); !queued) return std::move(queued).error();
  return streams;
}

void StepLoop::drain(std::chrono::milliseconds limit) {
  inbox_->close();
  if (inbox_->wait_idle(limit)) return;
  inbox_->cancel_all();
  inbox_->wait_idle(kStepLimit);  // one step; a bound in case that thread is gone
}

void StepLoop::sleep(int32_t level, bool gives_back_memory, std::function<void()> also) {
  sleep_level_.store(level);
  inbox_->sleep([this, gives_back_memory, also = std::move(also)] {
    if (gives_back_memory) stepper_->give_back_memory();
    if (also) also();
  });
}

void StepLoop::wake_up() {
  inbox_->wake_up();
  note_awake();
}

Result<void> StepLoop::quiesce(std::chrono::milliseconds grace) {
  const auto released = std::make_shared<std::promise<void>>();
  std::future<void> done = released->get_future();
  sleep(1, true, [released] { released->set_value(); });
  if (!inbox_->wait_idle(grace)) inbox_->cancel_all();
  // One step; a bound in case that thread is gone.
  if (done.wait_for(kStepLimit) == std::future_status::ready) return {};
  wake_up();
  return Error{ErrorCode::kCancelled, "the engine has ended", ""};
}

void StepLoop::reopen() {
  inbox_->reopen();
  note_awake();
}

void StepLoop::note_awake() {
  sleep_level_.store(-1);
  has_released_.store(false);
}

void StepLoop::fail(const Error& error) {
  healthy_.store(false);
  inbox_->fail(error);
}

template <class T, class Work>
Result<T> StepLoop::between_steps(const Work& work) {
  std::optional<Result<T>> result;
  try {
    if (inbox_->run([&] { result.emplace(work(stepper_->scheduler())); }))
      return *std::move(result);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kResourceExhausted, "out of memory for a saved prefix", ""};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, std::string("a saved prefix: ") + error.what(), ""};
  }
  return Error{ErrorCode::kCancelled, "the engine has ended", ""};
}

Result<int64_t> StepLoop::save_prefix(std::span<const int32_t> ids, std::vector<uint8_t>& out) {
  return between_steps<int64_t>(
      [&](Scheduler& scheduler) { return scheduler.save_prefix(ids, out); });
}

Result<int64_t> StepLoop::load_prefix(const SavedPrefix& saved) {
  return between_steps<int64_t>([&](Scheduler& scheduler) {
    return scheduler.load_prefix(saved, stepper_->model().token_map());
  });
}

Result<std::vector<std::vector<int32_t>>> StepLoop::cached_prefixes(size_t max) {
  return between_steps<std::vector<std::vector<int32_t>>>(
      [&](Scheduler& scheduler) { return scheduler.cached_prefixes(max); });
}

EngineStats StepLoop::stats() const {
  EngineStats stats = stepper_->metrics().read();
  stats.num_waiting += inbox_->num_queued();
  stats.num_blocks = plan().num_blocks;
  stats.block_tokens = kBlockTokens;
  stats.sleep_level = sleep_level_.load();
  stats.has_released_memory = stats.sleep_level >= 0 && has_released_.load();
  return stats;
}

void StepLoop::loop(const std::stop_token& stop) {
  Scheduler& scheduler = stepper_->scheduler();
  while (!stop.stop_requested()) {
    const bool is_idle = scheduler.running().empty() && scheduler.num_waiting() == 0;
    inbox_->set_idle(is_idle);
    if (is_idle) release();
    if (is_idle && !inbox_->wait(stop)) break;
    try {
      if (!take_mail()) break;
      stepper_->step();
    } catch (const std::bad_alloc&) {
      stepper_->fail({ErrorCode::kResourceExhausted, "out of memory in a step", ""});
    } catch (const std::exception& error) {
      stepper_->fail({ErrorCode::kInternal, std::string("a step failed: ") + error.what(), ""});
    }
  }
  healthy_.store(false);
  inbox_->end();
  inbox_->cancel_all();
  (void)take_mail();
  scheduler.count();
  inbox_->set_idle(true);
}

// What was asked for by sleep(), once.
void StepLoop::release() {
  if (!release_) return;
  std::exchange(release_, nullptr)();
  has_released_.store(true);
}

// Arrivals first, so that their cancellations find them. False: no steps are wanted any more.
bool StepLoop::take_mail() {
  inbox_->take(mail_);
  Scheduler& scheduler = stepper_->scheduler();
  for (auto& sequence : mail_.arrivals) scheduler.enqueue(std::move(sequence));
  for (const SequenceKey& key : mail_.cancels) scheduler.end(key, End::kCancelled, std::nullopt);
  if (mail_.fault) scheduler.end_all(End::kError, mail_.fault);
  if (mail_.cancel_all) scheduler.end_all(End::kCancelled, std::nullopt);
  if (mail_.reset_cache) scheduler.reset_cache();
  for (Errand& errand : mail_.errands) do_errand(errand);
  mail_.errands.clear();
  if (mail_.report) scheduler.report(std::exchange(mail_.report, nullptr));
  if (mail_.wake_up) release_ = nullptr;
  if (mail_.release) release_ = std::exchange(mail_.release, nullptr);
  mail_.arrivals.clear();
  mail_.cancels.clear();
  mail_.cancel_all = mail_.reset_cache = mail_.wake_up = false;
  scheduler.expire(Clock::now());
  return !std::exchange(mail_.fault, std::nullopt).has_value();
}

}  // namespace stoker::engine
