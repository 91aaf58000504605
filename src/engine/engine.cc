#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

namespace stoker::engine {

// A request, its state once it runs, and where its tokens go.
struct StepLoop::Sequence {
  TokenRequest request;
  std::shared_ptr<TokenStream> stream;
  std::optional<SequenceState> state;  // from admission on
  int64_t bytes = 0;                   // what it counts for in max_state_bytes
  std::vector<int32_t> next;           // rows of the coming step
  int32_t last_token = 0;
  int32_t num_chosen = 0;
  bool finished = false;

  int64_t prompt_left() const {
    return static_cast<int64_t>(request.prompt.size()) - state->length();
  }

  void finish(End end, std::optional<Error> error = std::nullopt) {
    finished = true;
    stream->finish(end, std::move(error));
  }

  // Takes up to `max_rows` rows for a step; none if it is 0.
  void take_rows(int64_t max_rows) {
    next.clear();
    if (prompt_left() <= 0) {
      next.push_back(last_token);
      return;
    }
    const auto first = request.prompt.begin() + state->length();
    next.assign(first, first + std::min(prompt_left(), max_rows));
  }
};

StepLoop::StepLoop(const Model& model, int num_threads, const EngineLimits& limits)
    : model_(model), limits_(limits), shape_(kv_shape(model.config())), pool_(num_threads) {
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

StepLoop::~StepLoop() {
  thread_.request_stop();
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int64_t StepLoop::state_bytes(const TokenRequest& request) const {
  const double tokens = static_cast<double>(request.prompt.size()) + request.max_tokens;
  return shape_.fixed_bytes() + static_cast<int64_t>(tokens * shape_.growing_bytes_per_token());
}

Result<std::shared_ptr<TokenStream>> StepLoop::submit(TokenRequest request,
                                                      std::function<void()> ready) {
  const int64_t bytes = state_bytes(request);
  if (bytes > limits_.max_state_bytes) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the request needs " + std::to_string(bytes >> 20) + " MiB for its state, more than the " +
            std::to_string(limits_.max_state_bytes >> 20) + " MiB there are: ask for fewer tokens",
        "max_tokens"};
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->bytes = bytes;
  sequence->stream = std::make_shared<TokenStream>(std::move(ready));
  auto stream = sequence->stream;
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || !healthy())
      return Error{ErrorCode::kCancelled, "the engine is shutting down", ""};
    if (waiting_.size() >= static_cast<size_t>(limits_.max_queue)) {
      return Error{
          ErrorCode::kOverloaded,
          std::to_string(limits_.max_queue) + " requests are waiting already: try again later", ""};
    }
    waiting_.push_back(std::move(sequence));
  }
  work_.notify_all();
  return stream;
}

void StepLoop::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto is_idle = [this] { return waiting_.empty() && num_running_.load() == 0; };
  if (idle_.wait_for(lock, limit, is_idle)) return;
  cancel_all_.store(true);
  idle_.wait_for(lock, std::chrono::seconds(60),
                 is_idle);  // one step at most; a bound in case that thread is gone
}

EngineCounts StepLoop::counts() const {
  const std::lock_guard lock(mutex_);
  return {num_running_.load(), static_cast<int64_t>(waiting_.size()), num_steps_.load()};
}

void StepLoop::loop(const std::stop_token& stop) {
  while (wait_for_work(stop)) {
    try {
      drop_cancelled();
      admit();
      step();
    } catch (const std::bad_alloc&) {
      fail_running({ErrorCode::kResourceExhausted, "out of memory in a step", ""});
    } catch (const std::exception& error) {
      fail_running({ErrorCode::kInternal, std::string("a step failed: ") + error.what(), ""});
    }
    const std::lock_guard lock(mutex_);
    num_running_.store(static_cast<int64_t>(running_.size()));
    if (running_.empty() && waiting_.empty()) idle_.notify_all();
  }
  healthy_.store(false);
  finish_all(End::kCancelled);
}

bool StepLoop::wait_for_work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return work_.wait(lock, stop, [this] { return !waiting_.empty() || !running_.empty(); }) &&
         !stop.stop_requested();
}

void StepLoop::drop_cancelled() {
  const bool all = cancel_all_.load();
  const auto drop = [this, all](std::unique_ptr<Sequence>& sequence) {
    if (!all && !sequence->stream->cancelled()) return false;
    if (sequence->state) running_bytes_ -= sequence->bytes;
    sequence->finish(End::kCancelled);
    return true;
  };
  std::erase_if(running_, drop);
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, drop);
}

void StepLoop::admit() {
  while (running_.size() < static_cast<size_t>(limits_.max_num_seqs)) {
    std::unique_ptr<Sequence> sequence;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty() || running_bytes_ + waiting_.front()->bytes > limits_.max_state_bytes)
        return;
      sequence = std::move(waiting_.front());
      waiting_.pop_front();
      num_running_.fetch_add(1);  // under the lock: drain() must not see it nowhere
    }
    running_.push_back(
        std::move(sequence));  // first, so that it is found if there is no memory for its state
    Sequence& admitted = *running_.back();
    running_bytes_ += admitted.bytes;
    admitted.state.emplace(
        shape_, static_cast<int64_t>(admitted.request.prompt.size()) + admitted.request.max_tokens);
    admitted.stream->mark_scheduled(Clock::now());
  }
}

void StepLoop::step() {
  std::vector<Segment> batch;
  std::vector<Sequence*> ready;  // those whose next token this step yields
  std::vector<int64_t> wanted;   // their last rows
  int64_t num_rows = 0;
  int64_t prefill_left = limits_.max_prefill_rows;
  for (const auto& sequence : running_) {
    const bool prefills = sequence->prompt_left() > 0;
    sequence->take_rows(prefill_left);
    if (sequence->next.empty()) continue;  // its prompt waits for a later step
    const auto rows = static_cast<int64_t>(sequence->next.size());
    if (prefills) prefill_left -= rows;
    batch.push_back({&*sequence->state, sequence->next});
    num_rows += rows;
    if (sequence->prompt_left() <= rows) {
      ready.push_back(sequence.get());
      wanted.push_back(num_rows - 1);
    }
  }
  if (batch.empty()) return;
  std::vector<float> logits(wanted.size() * static_cast<size_t>(model_.config().vocab_size));
  model_.forward(pool_, batch, wanted, logits.data(), nullptr);
  num_steps_.fetch_add(1, std::memory_order_relaxed);
  choose_tokens(ready, logits);
  std::erase_if(running_, [this](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->finished) running_bytes_ -= sequence->bytes;
    return sequence->finished;
  });
}

void StepLoop::choose_tokens(const std::vector<Sequence*>& ready,
                             const std::vector<float>& logits) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < ready.size(); ++i) {
    Sequence& sequence = *ready[i];
    const TokenRequest& request = sequence.request;
    const auto token = sampling::sample({logits.data() + i * vocab, vocab}, request.seed,
                                        static_cast<uint64_t>(sequence.state->length()),
                                        request.sampling, scratch_);
    if (!token) {
      sequence.finish(End::kError,
                      token.error().with("position " + std::to_string(sequence.state->length())));
      continue;
    }
    sequence.last_token = *token;
    ++sequence.num_chosen;
    sequence.stream->push(*token, Clock::now());
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), *token) !=
        request.stop_ids.end()) {
      sequence.finish(End::kStopId);
    } else if (sequence.num_chosen >= request.max_tokens) {
      sequence.finish(End::kLength);
    }
  }
}

void StepLoop::fail_running(const Error& error) {
  for (const auto& sequence : running_) {
    if (!sequence->finished) sequence->finish(End::kError, error);
  }
  running_.clear();
  running_bytes_ = 0;
}

void StepLoop::finish_all(End end) {
  for (const auto& sequence : running_) sequence->finish(end);
  running_.clear();
  const std::lock_guard lock(mutex_);
  for (const auto& sequence : waiting_) sequence->finish(end);
  waiting_.clear();
  num_running_.store(0);
  idle_.notify_all();
}

}  // namespace stoker::engine
