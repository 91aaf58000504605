// What a step costs beside the model: choosing the rows of 256 sequences, keeping the prefix cache,
// passing tokens to their readers, and the numbers. As Stepper does it, less the forward call, the
// sampling and the bytes of images.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "engine/step_cost.h"

namespace stoker::engine {
namespace {

constexpr int32_t kRunning = 256;
constexpr int64_t kSteps = 3000;
constexpr int64_t kPrompt = 1024;

// As few bytes as there can be: the model's are not the scheduler's work.
KvShape least_shape() {
  return {.num_rings = 2,
          .num_early_rings = 1,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 1,
          .history = 0,
          .sources = {{0, kBlockTokens}}};
}

struct Load {
  int64_t num_queued = 0;
  int64_t num_image_units = 0;  // 0: no images are made
  bool room_for_more = false;   // a slot more than run: the queue's head waits for blocks
  int64_t head_tokens = 0;      // of the queue's head; 0: as the others
  int64_t head_cached = 0;      // of these in the cache, as the prefix of one that runs
  bool in_phase = false;        // all sequences fill their blocks in the same steps
};

std::vector<int32_t> ids_of(int64_t who, int64_t count) {
  std::vector<int32_t> ids;
  auto x = static_cast<uint32_t>(who) * 2654435761U + 1;
  for (int64_t i = 0; i < count; ++i) {
    x = x * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>(x >> 8));
  }
  return ids;
}

// A scheduler with sequences that run and others that wait.
class Bookkeeping {
 public:
  explicit Bookkeeping(const Load& load) : store_(store_for(load)) {
    const Replay replay{
        .mode = ReplayMode::kExact, .last_source = 0, .first_late = 1, .num_kept_rows = 2414};
    scheduler_.emplace(*store_, SchedulerOptions{.prefix_cache = true, .replay = replay}, metrics_);
    std::vector<int32_t> head = ids_of(-1, load.head_tokens);
    for (int64_t i = 0; i < kRunning; ++i) {
      std::vector<int32_t> prompt =
          i == 0 && load.head_cached > 0
              ? std::vector<int32_t>(head.begin(), head.begin() + load.head_cached + 1)
              : ids_of(i, kPrompt + (load.in_phase ? 0 : i));
      add(std::move(prompt), 2 * kSteps);
    }
    while (!all_decode()) step(1 << 20);
    if (load.head_tokens > 0) add(std::move(head), 100);
    while (scheduler_->num_waiting() < load.num_queued) add(ids_of(arrivals_, kPrompt), 100);
  }

  // What the engine's thread does in a step.
  void step(int64_t max_prefill_rows) {
    scheduler_->expire(Clock::now());
    const int64_t decoding =
        std::ranges::count_if(scheduler_->running(), [](const std::unique_ptr<Sequence>& sequence) {
          return sequence->is_attached && sequence->num_behind() == 1;
        });
    const Clock::time_point begin = Clock::now();
    const std::span<Share> shares =
        scheduler_->plan(std::min(max_prefill_rows, cost_.prefill_rows(decoding)));
    scheduler_->plan_images();
    int64_t num_rows = 0;
    for (const Share& share : shares) {
      share.sequence->state->advance(share.rows);
      num_rows += share.rows;
    }
    scheduler_->commit();
    for (const Share& share : shares) choose(*share.sequence);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    cost_.observe(decoding, num_rows - decoding, seconds);
    metrics_.total_steps.add(1);
    metrics_.total_decode_rows.add(decoding);
    metrics_.total_prefill_rows.add(num_rows - decoding);
    metrics_.step_seconds.record(seconds);
    metrics_.step_rows.record(static_cast<double>(num_rows));
    scheduler_->drop_finished();
    scheduler_->count();
  }

  int64_t num_waiting() const { return scheduler_->num_waiting(); }
  int64_t num_images() const { return metrics_.num_images.get(); }
  int64_t num_running() const { return metrics_.num_running.get(); }

 private:
  static std::unique_ptr<KvStore> store_for(const Load& load) {
    const KvShape shape = least_shape();
    KvPlan plan;
    plan.num_slots = kRunning + (load.room_for_more ? 1 : 0);
    plan.num_image_units = load.num_image_units;
    plan.num_blocks =
        kRunning * blocks_for(kPrompt + kRunning + kSteps + 100) + blocks_for(load.head_cached);
    plan.total_bytes = plan.num_slots * shape.slot_bytes() +
                       plan.num_image_units * shape.image_unit_bytes() +
                       plan.num_blocks * shape.block_bytes();
    return *KvStore::create(shape, plan);
  }

  void add(std::vector<int32_t> prompt, int32_t max_tokens) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.max_tokens = max_tokens;
    sequence->num_prompt = static_cast<int64_t>(prompt.size());
    sequence->tokens = std::move(prompt);
    sequence->key = {0, arrivals_++};
    sequence->stream = std::make_shared<TokenStream>(nullptr, std::function<void()>());
    scheduler_->enqueue(std::move(sequence));
  }

  void choose(Sequence& sequence) {
    if (sequence.num_behind() > 0) return;
    const Clock::time_point now = Clock::now();
    if (sequence.num_chosen() > 0)
      metrics_.token_seconds.record(
          std::chrono::duration<double>(now - sequence.last_token).count());
    sequence.last_token = now;
    const auto token = static_cast<int32_t>(sequence.key.arrival * 7919 + sequence.num_tokens());
    sequence.tokens.push_back(token);
    sequence.stream->push(token, std::nullopt, now, sequence.work);
    metrics_.total_tokens.add(1);
  }

  bool all_decode() const {
    const auto& running = scheduler_->running();
    return running.size() == static_cast<size_t>(kRunning) &&
           std::ranges::all_of(running,
                               [](const auto& sequence) { return sequence->num_chosen() > 0; });
  }

  std::unique_ptr<KvStore> store_;
  Metrics metrics_;
  StepCost cost_{1 << 20};
  std::optional<Scheduler> scheduler_;
  int64_t arrivals_ = 0;
};

void run(benchmark::State& state, const Load& load) {
  Bookkeeping bookkeeping(load);
  std::vector<double> micros;
  micros.reserve(static_cast<size_t>(kSteps));
  while (state.KeepRunning()) {
    const Clock::time_point begin = Clock::now();
    bookkeeping.step(1024);
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  if (bookkeeping.num_running() != kRunning || bookkeeping.num_waiting() != load.num_queued)
    state.SkipWithError("not the load that was meant");
  std::ranges::sort(micros);
  state.counters["median_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
  state.counters["max_us"] = micros.back();
  state.counters["images"] = static_cast<double>(bookkeeping.num_images());
}

constexpr int64_t kUnits = 2048;                // two for each image that is whole
constexpr int64_t kTooMany = int64_t{1} << 20;  // tokens for which there are no blocks

void queue(benchmark::State& state) {
  run(state, {.num_queued = state.range(0)});
}
void images(benchmark::State& state) {
  run(state, {.num_queued = 1000, .num_image_units = kUnits});
}
void images_in_phase(benchmark::State& state) {
  run(state, {.num_queued = 1000, .num_image_units = kUnits, .in_phase = true});
}
void head_without_blocks(benchmark::State& state) {
  run(state, {.num_queued = 1000,
              .num_image_units = kUnits,
              .room_for_more = true,
              .head_tokens = kTooMany});
}
// The head's argument: tokens of it that are in the cache.
void head_in_cache_without_blocks(benchmark::State& state) {
  run(state, {.num_queued = 1000,
              .num_image_units = kUnits,
              .room_for_more = true,
              .head_tokens = state.range(0) + kTooMany,
              .head_cached = state.range(0)});
}

BENCHMARK(queue)->Arg(0)->Arg(1000)->Arg(10000)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
BENCHMARK(images)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
BENCHMARK(images_in_phase)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
BENCHMARK(head_without_blocks)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
BENCHMARK(head_in_cache_without_blocks)
    ->Arg(1 << 17)
    ->Arg(1 << 20)
    ->Iterations(kSteps)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stoker::engine

BENCHMARK_MAIN();
