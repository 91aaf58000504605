// What the door says of an engine's work beside the answers: counts, hits, deadlines, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/workspace.h"
#include "stoker/engine.h"
#include "stoker/inspect.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

class Log {
 public:
  LogSink sink() {
    return [this](LogLevel /*level*/, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
  }
  std::vector<std::string> finished() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
      if (line.starts_with("event=finished ")) found.push_back(line);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

Request request_of(int32_t prompt_tokens, int32_t max_tokens) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < prompt_tokens; ++i) ids.push_back(100 + i * 37 % 3000);
  Request request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// All of a stream in one event.
Event whole_event(Stream& stream) {
  Event all;
  for (int i = 0; i < 6000 && !all.finish; ++i) {
    auto event = stream.wait(10ms);
    if (!event) continue;
    all.ids.insert(all.ids.end(), event->ids.begin(), event->ids.end());
    if (!event->prompt_logprobs.empty()) all.prompt_logprobs = event->prompt_logprobs;
    all.finish = event->finish;
  }
  EXPECT_TRUE(all.finish) << "a request never ended";
  return all;
}

std::unique_ptr<Engine> open(const EngineOptions& options) {
  auto engine = Engine::open("demo", options);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

TEST(EngineService, AHitIsToldAndCountedAndChangesNothing) {
  Log log;
  EngineOptions options;
  options.log = log.sink();
  options.speculation.mode = Speculation::kOff;  // drafts are rows too
  const auto engine = open(options);
  const Event cold = whole_event(**engine->submit(request_of(300, 5)));
  EXPECT_EQ(cold.finish->usage.cached_tokens, 0);
  EXPECT_EQ(cold.finish->usage.computed_tokens, 304);
  const Event hit = whole_event(**engine->submit(request_of(300, 5)));
  EXPECT_EQ(hit.ids, cold.ids);
  EXPECT_EQ(hit.finish->usage.cached_tokens, 256);
  EXPECT_EQ(hit.finish->usage.computed_tokens, 48);
  engine->reset_prefix_cache();
  EXPECT_EQ(whole_event(**engine->submit(request_of(300, 5))).finish->usage.cached_tokens, 0);

  engine->drain(10s);  // the last step is counted
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.total_prompt_tokens, 900);
  EXPECT_EQ(stats.total_cached_tokens, 256);
  EXPECT_EQ(stats.total_tokens, 15);
  EXPECT_EQ(stats.total_length + stats.total_stopped, 3);
  EXPECT_EQ(stats.queue_seconds.count, 3);
  EXPECT_EQ(stats.first_token_seconds.count, 3);
  EXPECT_EQ(stats.token_seconds.count, 12);
  EXPECT_EQ(stats.step_seconds.count, stats.total_steps);
  EXPECT_EQ(stats.total_prefill_rows + stats.total_decode_rows, 304 + 48 + 304);
  EXPECT_GT(stats.num_blocks, 0);
  EXPECT_GT(stats.num_images, 0);

  const auto lines = log.finished();
  ASSERT_EQ(lines.size(), 3U);
  for (const char* word :
       {" reason=length", " prompt_tokens=300", " cached_tokens=256", " computed_tokens=48",
        " completion_tokens=5", " preemptions=0",
        " queue_s=", " prefill_s=", " first_token_s=", " token_s=", " total_s="}) {
    EXPECT_NE(lines[1].find(word), std::string::npos) << word << " in " << lines[1];
  }
}

TEST(EngineService, WithoutThePrefixCacheNothingIsFound) {
  EngineOptions options;
  options.prefix_caching = false;
  const auto engine = open(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(whole_event(**engine->submit(request_of(300, 2))).finish->usage.cached_tokens, 0);
  }
  EXPECT_EQ(engine->stats().num_images, 0);
}

TEST(EngineService, ReplayModesAgreeWhereTheyPromiseTo) {
  std::vector<std::vector<int32_t>> answers;
  for (const auto mode : {BoundedReplay::kOff, BoundedReplay::kExact, BoundedReplay::kCompact}) {
    EngineOptions options;
    options.bounded_replay = mode;
    answers.push_back(whole_event(**open(options)->submit(request_of(600, 20))).ids);
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_FALSE(answers[2].empty());
}

TEST(EngineService, PromptLogprobsComeWithTheFirstToken) {
  const auto engine = open({});
  Request request = request_of(200, 2);
  request.prompt_logprobs = 0;
  for (int i = 0; i < 2; ++i) {
    const Event event = whole_event(**engine->submit(request));
    EXPECT_EQ(event.prompt_logprobs.size(), 199U);
    EXPECT_EQ(event.finish->usage.cached_tokens, 0) << "every row is run";
  }
}

// After each step that reads a part of it, in order, up to the whole.
TEST(EngineService, ThePromptsProgressIsTold) {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  const auto engine = open(options);
  Request request = request_of(400, 3);
  request.n = 2;
  const auto progress_of = [&] {
    std::vector<PromptProgress> told;
    const auto stream = *engine->submit(request);
    int num_finished = 0;
    for (int i = 0; i < 6000 && num_finished < request.n; ++i) {
      auto event = stream->wait(10ms);
      if (!event) continue;
      if (event->prompt_progress) {
        EXPECT_EQ(event->choice, 0);
        told.push_back(*event->prompt_progress);
      }
      num_finished += event->finish ? 1 : 0;
    }
    EXPECT_EQ(num_finished, request.n);
    return told;
  };
  EXPECT_TRUE(progress_of().empty()) << "it was not asked for";
  for (const int32_t cached : {0, 384}) {
    if (cached == 0) engine->reset_prefix_cache();
    request.return_progress = true;
    const std::vector<PromptProgress> told = progress_of();
    ASSERT_FALSE(told.empty());
    int32_t before = cached;
    for (const PromptProgress& progress : told) {
      EXPECT_EQ(progress.total_tokens, 400);
      EXPECT_EQ(progress.cached_tokens, cached);
      EXPECT_GT(progress.processed_tokens, before);
      EXPECT_GT(progress.time.count(), 0);
      before = progress.processed_tokens;
    }
    EXPECT_EQ(before, 400);
    EXPECT_GE(told.size(), cached == 0 ? 2U : 1U);
  }
}

TEST(EngineService, AProfileHasTheStepsBetweenItsEnds) {
  const auto engine = open({});
  ASSERT_FALSE(engine->stop_profile());
  // Until the step that gave the last token is over.
  const auto finish_steps = [&engine] {
    ASSERT_TRUE(engine->sleep(SleepLevel::kNothing, false));
    for (int i = 0; i < 1000 && !engine->stats().has_released_memory; ++i)
      std::this_thread::sleep_for(10ms);
    engine->wake_up();
  };
  whole_event(**engine->submit(request_of(20, 2)));
  finish_steps();
  ASSERT_TRUE(engine->start_profile());
  EXPECT_EQ(engine->start_profile().error().code, ErrorCode::kInvalidArgument);
  const int64_t before = engine->stats().total_steps;
  whole_event(**engine->submit(request_of(300, 5)));
  finish_steps();
  const auto profile = engine->stop_profile();
  ASSERT_TRUE(profile) << profile.error().message;
  const int64_t num_steps = engine->stats().total_steps - before;
  const auto document = Json::parse((*profile)());
  ASSERT_TRUE(document) << document.error().message;
  int64_t found = 0;
  int64_t tokens = 0;
  int64_t prefill_rows = 0;
  double last = 0;
  for (const Json& event : document->find("traceEvents")->items()) {
    EXPECT_GE(event.find("dur")->as_double().value_or(-1), 0);
    if (event.find("name")->as_string() != "step") continue;
    ++found;
    EXPECT_GE(event.find("ts")->as_double().value_or(-1), last);
    last = *event.find("ts")->as_double();
    tokens += event.find("args")->find("tokens")->as_int().value_or(0);
    prefill_rows += event.find("args")->find("prefill_rows")->as_int().value_or(0);
  }
  EXPECT_EQ(found, num_steps);
  EXPECT_EQ(tokens, 5);
  EXPECT_EQ(prefill_rows, 300);
  whole_event(**engine->submit(request_of(10, 2)));
  finish_steps();
  ASSERT_TRUE(engine->start_profile());
  EXPECT_EQ(Json::parse((*engine->stop_profile())())->find("traceEvents")->items().size(), 0U);
}

// Answers are the same before and after, and the memory is there again.
TEST(EngineService, SleepAndWakeUpChangeNoAnswer) {
  const auto engine = open({});
  const Request request = request_of(300, 20);
  const std::vector<int32_t> ids = whole_event(**engine->submit(request)).ids;
  for (const SleepLevel level : {SleepLevel::kState, SleepLevel::kWeights, SleepLevel::kNothing}) {
    ASSERT_TRUE(engine->sleep(level, false));
    const auto refused = engine->submit(request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    for (int i = 0; i < 1000 && !engine->stats().has_released_memory; ++i)
      std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(engine->stats().has_released_memory);
    engine->wake_up();
    const Event again = whole_event(**engine->submit(request));
    EXPECT_EQ(again.ids, ids);
    EXPECT_EQ(again.finish->usage.cached_tokens > 0, level == SleepLevel::kNothing);
  }
  Request endless = request_of(5, 2000);
  endless.ignore_eos = true;
  const auto stream = *engine->submit(endless);
  ASSERT_TRUE(engine->sleep(SleepLevel::kState, true));
  EXPECT_EQ(whole_event(*stream).finish->reason, FinishReason::kCancelled);
}

TEST(EngineService, WeightsInMemoryAreNotGivenBack) {
  EngineOptions options;
  options.weights.pack = false;
  const auto engine = open(options);
  const auto slept = engine->sleep(SleepLevel::kWeights, false);
  ASSERT_FALSE(slept);
  EXPECT_EQ(slept.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(engine->stats().sleep_level, -1);
}

TEST(EngineService, ADeadlineEndsARequest) {
  const auto engine = open({});
  Request request = request_of(10, 4000);
  request.timeout = 2ms;
  const Event event = whole_event(**engine->submit(request));
  ASSERT_EQ(event.finish->reason, FinishReason::kError);
  EXPECT_EQ(event.finish->error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_LT(event.ids.size(), 4000U);
  EXPECT_EQ(engine->stats().total_failed, 1);
}

TEST(EngineService, AStreamThatIsDroppedIsCountedAndLogged) {
  Log log;
  EngineOptions options;
  options.log = log.sink();
  const auto engine = open(options);
  { auto dropped = *engine->submit(request_of(10, 4000)); }
  engine->drain(10s);
  EXPECT_EQ(engine->stats().total_cancelled, 1);
  EXPECT_EQ(engine->stats().num_running, 0);
  const auto lines = log.finished();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find(" reason=abort"), std::string::npos) << lines[0];
}

TEST(EngineService, RefusesWhatItCannotHonour) {
  const auto engine = open({});
  const auto field_of = [&engine](const Request& request) {
    const auto stream = engine->submit(request);
    return stream ? "accepted" : stream.error().field;
  };
  Request request = request_of(10, 1);
  request.priority = 1;
  EXPECT_EQ(field_of(request), "priority");
  request.priority = kBackgroundPriority;
  EXPECT_EQ(field_of(request), "accepted");
  request = request_of(10, 1);
  request.timeout = 0ms;
  EXPECT_EQ(field_of(request), "timeout");
  request = request_of(10, 1);
  request.cache_salt = std::string(257, 'x');
  EXPECT_EQ(field_of(request), "cache_salt");

  EngineOptions options;
  options.use_priorities = true;
  const auto with = open(options);
  request = request_of(10, 1);
  request.priority = -5;
  EXPECT_TRUE(with->submit(request));

  for (const auto change : {+[](EngineOptions& o) { o.image_interval = 100; },
                            +[](EngineOptions& o) { o.max_num_batched_tokens = 0; },
                            +[](EngineOptions& o) { o.max_num_seqs = 0; },
                            +[](EngineOptions& o) { o.image_budget_bytes = -2; },
                            +[](EngineOptions& o) { o.kv_budget_bytes = 100; }}) {
    EngineOptions bad;
    change(bad);
    const auto refused = Engine::open("demo", bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
  }
}

// What steps compute in is told beside the budget, by the arithmetic that allocates it.
TEST(EngineService, ThePlanTellsWhatStepsComputeIn) {
  EngineOptions options;
  options.kv_budget_bytes = 400'000;
  options.max_num_seqs = 4;
  options.num_threads = 3;
  const auto config = read_config(*resolve_model("demo"));
  ASSERT_TRUE(config) << config.error().message;
  const auto workspace_is = [&](int32_t batched_tokens, int64_t rows) {
    options.max_num_batched_tokens = batched_tokens;
    const auto plan = plan_state("demo", options);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->max_step_rows, rows);
    EXPECT_EQ(plan->workspace_bytes, Workspace::bytes_for(*config, 3, rows));
    EXPECT_LE(plan->total_bytes, plan->budget_bytes) << "it is beside the budget";
  };
  workspace_is(1000, 1000);
  workspace_is(2, 4);  // each sequence can have a row
}

// What the plan says is what the engine has: requests fill it to the last block.
TEST(EngineService, ThePlanIsWhatTheEngineHas) {
  EngineOptions options;
  options.kv_budget_bytes = 400'000;
  options.max_num_seqs = 4;
  const auto plan = plan_state("demo", options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto engine = open(options);
  EXPECT_EQ(engine->stats().num_blocks, plan->num_blocks);
  const auto longest = static_cast<int32_t>(plan->num_tokens);
  ASSERT_LT(longest, engine->model().max_context_tokens);
  EXPECT_FALSE(engine->submit(request_of(10, longest)));
  const Event event = whole_event(**engine->submit(request_of(longest - 2, 2)));
  EXPECT_FALSE(event.ids.empty());
  engine->drain(10s);
  EXPECT_EQ(engine->stats().num_blocks_used + engine->stats().num_blocks_cached,
            plan->num_blocks - 1)
      << "all blocks but the last, which was not full, are kept";
}

}  // namespace
}  // namespace stoker
