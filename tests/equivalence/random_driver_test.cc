// Random life of an engine: requests come, share beginnings, are cancelled, preempted and evicted,
// in a pool that is too small. After each step the books balance; each answer equals that of its
// request alone. Runs for some seconds, or for STOKER_DRIVER_SECONDS; prints its seed, and takes
// STOKER_DRIVER_SEED.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "equivalence/stepped_engine.h"

namespace stoker::testing {
namespace {

using engine::TokenRequest;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? std::atoll(value) : otherwise;
}

// Few kinds of requests, so that each has to be run alone only once: all share beginnings.
class Driver {
 public:
  Driver(const Models& models, ReplayMode mode, uint32_t seed)
      : models_(models), mode_(mode), random_(seed), engine_(models, options(models, mode, seed)) {}

  void round() {
    for (int step = 0; step < 150; ++step) {
      if (random_() % 4 == 0 && live_.size() < 8) submit();
      if (!live_.empty() && random_() % 40 == 0) cancel();
      if (random_() % 25 == 0 && !engine_.scheduler().running().empty()) preempt();
      if (random_() % 200 == 0) engine_.scheduler().reset_cache();
      engine_.step();
      check_finished();
      if (::testing::Test::HasFailure()) return;
    }
    engine_.run();
    check_finished();
    EXPECT_TRUE(live_.empty()) << "a request never ended";
  }

  int64_t num_steps() const { return engine_.metrics().total_steps.get(); }
  const engine::Metrics& metrics() const { return engine_.metrics(); }

 private:
  static SteppedEngine::Options options(const Models& models, ReplayMode mode, uint32_t seed) {
    const KvShape shape = models.model(mode).state_shape();
    engine::EngineLimits limits;
    limits.max_num_seqs = 2 + static_cast<int32_t>(seed % 4);
    limits.max_step_rows = 20 + seed % 200;
    limits.image_interval = seed % 3 == 0 ? 0 : 128;
    limits.image_budget_bytes = static_cast<int64_t>(2 + seed % 7) * shape.image_unit_bytes();
    limits.kv_budget_bytes =
        2 * limits.max_num_seqs * shape.slot_bytes() + limits.image_budget_bytes +
        static_cast<int64_t>(6 + seed % 6) * (shape.block_bytes() + kIndexBytesPerBlock);
    if (seed % 2 == 0) limits.drafts = engine::DraftOptions{.is_adaptive = seed % 4 == 0};
    return {.num_threads = 1 + static_cast<int>(seed % 2), .replay = mode, .limits = limits};
  }

  void submit() {
    const uint32_t trunk = random_() % 2;
    const int64_t cut = 32 * static_cast<int64_t>(random_() % 11);
    std::vector<int32_t> prompt = random_ids(models_, trunk, cut);
    const std::vector<int32_t> tail = random_ids(models_, 10 + random_() % 3, 1 + random_() % 2);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    TokenRequest request =
        request_of(std::move(prompt), random_() % 3 == 0 ? 60 : 5, random_() % 4);
    request.priority = static_cast<int32_t>(random_() % 2);
    if (random_() % 5 == 0) request.cache_salt = "salt";
    live_.emplace(engine_.submit(request), request);
  }

  size_t any_live() {
    auto at = live_.begin();
    std::advance(at, static_cast<int64_t>(random_() % live_.size()));
    return at->first;
  }

  void cancel() {
    const size_t number = any_live();
    engine_.cancel(number);
    live_.erase(number);
  }

  void preempt() {
    const auto& running = engine_.scheduler().running();
    engine_.scheduler().preempt(*running[random_() % running.size()]);
  }

  void check_finished() {
    for (auto at = live_.begin(); at != live_.end();) {
      const Answer& answer = engine_.answer(at->first);
      if (!answer.end) {
        ++at;
        continue;
      }
      EXPECT_TRUE(same(answer, alone(models_, at->second, mode_))) << "request " << at->first;
      at = live_.erase(at);
    }
  }

  const Models& models_;
  const ReplayMode mode_;
  std::mt19937 random_;
  SteppedEngine engine_;
  std::map<size_t, TokenRequest> live_;
};

class RandomDriver : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, RandomDriver, ::testing::Values("small", "demo"),
                         [](const auto& model) { return model.param; });

TEST_P(RandomDriver, EveryAnswerEqualsTheOneAlone) {
  const auto limit = std::chrono::seconds(from_environment("STOKER_DRIVER_SECONDS", 3));
  auto seed = static_cast<uint32_t>(from_environment("STOKER_DRIVER_SEED", std::random_device{}()));
  const auto begin = std::chrono::steady_clock::now();
  int64_t num_steps = 0;
  int64_t num_cached = 0;
  int64_t num_preemptions = 0;
  int64_t num_rounds = 0;
  do {
    SCOPED_TRACE("STOKER_DRIVER_SEED=" + std::to_string(seed));
    const ReplayMode modes[] = {ReplayMode::kExact, ReplayMode::kOff, ReplayMode::kCompact};
    Driver driver(Models::get(GetParam()), modes[seed % 3], seed);
    driver.round();
    num_steps += driver.num_steps();
    num_cached += driver.metrics().total_cached_tokens.get();
    num_preemptions += driver.metrics().total_preemptions.get();
    ++num_rounds;
    ++seed;
    if (HasFailure()) break;
  } while (std::chrono::steady_clock::now() - begin < limit);
  std::printf("%lld rounds, %lld steps, %lld cached tokens, %lld preemptions; last seed %u\n",
              static_cast<long long>(num_rounds), static_cast<long long>(num_steps),
              static_cast<long long>(num_cached), static_cast<long long>(num_preemptions),
              seed - 1);
}

}  // namespace
}  // namespace stoker::testing
