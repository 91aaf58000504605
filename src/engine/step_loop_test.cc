// The step loop on the small model: what shares a step changes nothing, and every request ends
// exactly once.
#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "support/golden.h"
#include "tensor/formats.h"

namespace stoker::engine {
namespace {

using namespace std::chrono_literals;
using testing::GoldenFile;

const std::string kSmall = std::string(STOKER_SOURCE_DIR) + "/tests/data/small/checkpoint";

struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
};

Loaded load(const std::string& dir) {
  Loaded loaded;
  auto opened = Checkpoint::open(dir, 1);
  EXPECT_TRUE(opened) << opened.error().message;
  loaded.checkpoint = std::make_unique<Checkpoint>(*std::move(opened));
  std::vector<int32_t> map;
  const GoldenFile golden("tests/data/small/golden/golden.safetensors");
  for (const int64_t token_class : golden.i64("token_map"))
    map.push_back(static_cast<int32_t>(token_class));
  map.resize(static_cast<size_t>(loaded.checkpoint->config().vocab_size));
  auto model = Model::create(loaded.checkpoint->config(), loaded.checkpoint->weights(), map);
  EXPECT_TRUE(model) << model.error().message;
  loaded.model = std::make_unique<Model>(*std::move(model));
  return loaded;
}

TokenRequest request_of(uint32_t seed, int32_t prompt_tokens, int32_t max_tokens,
                        double temperature = 1) {
  TokenRequest request;
  uint32_t x = seed;
  for (int32_t i = 0; i < prompt_tokens; ++i) {
    x = x * 1664525 + 1013904223;
    request.prompt.push_back(static_cast<int32_t>((x >> 8) % 570));
  }
  request.sampling.temperature = temperature;
  request.sampling.top_p = 0.9;
  request.seed = seed;
  request.max_tokens = max_tokens;
  return request;
}

struct Outcome {
  std::vector<int32_t> tokens;
  std::optional<End> end;
  std::optional<Error> error;
};

Outcome read_all(TokenStream& stream) {
  Outcome outcome;
  for (int i = 0; i < 6000 && !outcome.end; ++i) {
    stream.wait(10ms);
    TokenProgress progress = stream.take();
    outcome.tokens.insert(outcome.tokens.end(), progress.tokens.begin(), progress.tokens.end());
    outcome.end = progress.end;
    outcome.error = progress.error;
  }
  EXPECT_TRUE(outcome.end) << "a request never ended";
  return outcome;
}

Result<std::shared_ptr<TokenStream>> submit(StepLoop& loop, const TokenRequest& request,
                                            const std::function<void()>& ready) {
  auto streams = loop.submit({request}, ready);
  if (!streams) return std::move(streams).error();
  return streams->front();
}

EngineLimits roomy() {
  return {.max_num_seqs = 8,
          .max_queue = 100,
          .kv_budget_bytes = int64_t{64} << 20,
          .check_integrity = true};
}

std::unique_ptr<StepLoop> start(const Model& model, int num_threads, const EngineLimits& limits) {
  auto loop = StepLoop::create(model, num_threads, limits);
  EXPECT_TRUE(loop) << loop.error().message;
  return *std::move(loop);
}

class EngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { loaded_ = new Loaded(load(kSmall)); }
  static void TearDownTestSuite() { delete loaded_; }
  static const Model& model() { return *loaded_->model; }

  static Outcome alone(const TokenRequest& request) {
    const auto loop = start(model(), 1, roomy());
    return read_all(**submit(*loop, request, {}));
  }

 private:
  static Loaded* loaded_;
};
Loaded* EngineTest::loaded_ = nullptr;

// What runs ends first; then nothing is cached, and an answer is what it was.
TEST_F(EngineTest, SleepsWhenAllIsDoneAndWakesUpAsItWas) {
  const auto loop = start(model(), 1, roomy());
  const TokenRequest request = request_of(5, 150, 20);
  const auto has_released = [&loop] {
    for (int i = 0; i < 1000 && !loop->stats().has_released_memory; ++i)
      std::this_thread::sleep_for(10ms);
    return loop->stats().has_released_memory;
  };
  const auto running = submit(*loop, request, {});
  ASSERT_TRUE(running);
  int num_called = 0;
  loop->sleep(1, true, [&num_called] { ++num_called; });
  EXPECT_EQ(loop->stats().sleep_level, 1);
  const auto refused = submit(*loop, request, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const Outcome before = read_all(**running);
  EXPECT_EQ(before.end, End::kLength) << "it was waited for";
  EXPECT_TRUE(has_released());
  EXPECT_EQ(num_called, 1);
  EXPECT_EQ(loop->stats().num_blocks_cached, 0);
  loop->wake_up();
  EXPECT_EQ(loop->stats().sleep_level, -1);
  EXPECT_FALSE(loop->stats().has_released_memory);
  const auto again = submit(*loop, request, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(read_all(**again).tokens, before.tokens);
  // Woken up before it could: nothing is given back.
  const auto last = submit(*loop, request, {});
  loop->sleep(1, true, [&num_called] { ++num_called; });
  loop->wake_up();
  EXPECT_EQ(read_all(**last).tokens, before.tokens);
  loop->sleep(0, false, {});
  EXPECT_TRUE(has_released());
  EXPECT_GT(loop->stats().num_blocks_cached, 0) << "level 0 keeps all";
  EXPECT_EQ(num_called, 1);
}

TEST_F(EngineTest, GreedyTokensAreTheGoldenOnes) {
  const GoldenFile golden("tests/data/small/golden/golden.safetensors");
  TokenRequest request;
  for (const int64_t id : golden.i64("decode.prompt"))
    request.prompt.push_back(static_cast<int32_t>(id));
  request.sampling.temperature = 0;
  request.max_tokens = 40;
  std::vector<int32_t> expected;
  for (const int64_t id : golden.i64("decode.ids")) expected.push_back(static_cast<int32_t>(id));
  const Outcome outcome = alone(request);
  EXPECT_EQ(outcome.tokens, expected);
  EXPECT_EQ(outcome.end, End::kLength);
}

TEST(TokenStream, PromptLogprobsComeWithTheFirstToken) {
  TokenStream stream(nullptr, {});
  stream.set_prompt_logprobs({{-1.5F, 2, {}}});
  EXPECT_TRUE(stream.take().prompt_logprobs.empty()) << "a look before the token";
  stream.push(7, std::nullopt, Clock::now(), {});
  const TokenProgress progress = stream.take();
  EXPECT_EQ(progress.tokens, std::vector<int32_t>{7});
  EXPECT_EQ(progress.prompt_logprobs.size(), 1U);
  stream.finish(End::kLength, std::nullopt, {});
}

TEST_F(EngineTest, ABudgetForLessThanOneSequenceIsRefused) {
  EngineLimits limits = roomy();
  limits.kv_budget_bytes = 1000;
  const auto loop = StepLoop::create(model(), 1, limits);
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(EngineTest, AStopIdEndsTheSequence) {
  TokenRequest request = request_of(3, 10, 50);
  const Outcome free = alone(request);
  request.stop_ids = {free.tokens[7]};
  const Outcome stopped = alone(request);
  const auto first = std::find(free.tokens.begin(), free.tokens.end(), free.tokens[7]);
  EXPECT_EQ(stopped.tokens, std::vector<int32_t>(free.tokens.begin(), first + 1));
  EXPECT_EQ(stopped.end, End::kStopId);
}

TEST_F(EngineTest, CancelFreesItsPlaceAndDisturbsNobody) {
  const TokenRequest survivor = request_of(7, 30, 40);
  const Outcome expected = alone(survivor);
  EngineLimits limits = roomy();
  limits.max_num_seqs = 2;
  const auto loop = start(model(), 2, limits);
  auto kept = *submit(*loop, survivor, {});
  std::vector<std::shared_ptr<TokenStream>> others;
  for (uint32_t i = 0; i < 10; ++i)
    others.push_back(*submit(*loop, request_of(100 + i, 40, 1000), {}));
  for (auto& other : others) {  // running, in the middle of its prompt, or waiting
    other->cancel();
    EXPECT_EQ(read_all(*other).end, End::kCancelled);
  }
  EXPECT_EQ(read_all(*kept).tokens, expected.tokens);
  loop->drain(10s);
  EXPECT_EQ(loop->stats().num_running, 0);
  EXPECT_EQ(loop->stats().num_waiting, 0);
}

TEST_F(EngineTest, AFullQueueIsOverloaded) {
  EngineLimits limits = roomy();
  limits.max_num_seqs = 1;
  limits.max_queue = 2;
  const auto loop = start(model(), 1, limits);
  std::vector<std::shared_ptr<TokenStream>> streams;
  Result<std::shared_ptr<TokenStream>> last = submit(*loop, request_of(1, 5, 2000), {});
  while (last) {
    streams.push_back(*last);
    ASSERT_LE(streams.size(), 4U);
    last = submit(*loop, request_of(1, 5, 2000), {});
  }
  EXPECT_EQ(last.error().code, ErrorCode::kOverloaded);
}

// A request that has its end has left the queue: its place can be had at once.
TEST_F(EngineTest, TheQueueHasRoomOnceARequestStarts) {
  EngineLimits limits = roomy();
  limits.max_num_seqs = 1;
  limits.max_queue = 1;
  const auto loop = start(model(), 1, limits);
  for (uint32_t i = 0; i < 50; ++i) {
    const auto stream = submit(*loop, request_of(i, 3, 1), {});
    ASSERT_TRUE(stream) << stream.error().message;
    read_all(**stream);
  }
}

TEST_F(EngineTest, ARequestThatCanNeverFitIsRefusedAtOnce) {
  EngineLimits limits = roomy();
  const KvShape shape = model().state_shape();
  limits.kv_budget_bytes = shape.slot_bytes() + 2 * shape.block_bytes();
  const auto loop = start(model(), 1, limits);
  const auto refused = submit(*loop, request_of(1, 5, 2000), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(submit(*loop, request_of(1, 2, 1), {}));
}

TEST_F(EngineTest, DrainFinishesWhatItCanAndCancelsTheRest) {
  const auto loop = start(model(), 1, roomy());
  auto brief = *submit(*loop, request_of(1, 5, 5), {});
  loop->drain(20s);
  EXPECT_EQ(read_all(*brief).end, End::kLength);
  EXPECT_EQ(submit(*loop, request_of(1, 5, 5), {}).error().code, ErrorCode::kCancelled);

  const auto other = start(model(), 1, roomy());
  auto endless = *submit(*other, request_of(1, 5, 100000), {});
  other->drain(50ms);
  EXPECT_EQ(read_all(*endless).end, End::kCancelled);
}

TEST_F(EngineTest, StreamsOutliveTheLoop) {
  std::shared_ptr<TokenStream> stream;
  {
    const auto loop = start(model(), 2, roomy());
    stream = *submit(*loop, request_of(1, 5, 100000), {});
  }
  EXPECT_EQ(read_all(*stream).end, End::kCancelled);
}

TEST_F(EngineTest, ReadyIsCalledForNewsAndNotAfterDetach) {
  const auto loop = start(model(), 1, roomy());
  std::atomic<int> calls{0};
  auto stream = *submit(*loop, request_of(1, 5, 30), [&calls] { calls.fetch_add(1); });
  EXPECT_EQ(read_all(*stream).tokens.size(), 30U);
  EXPECT_GE(calls.load(), 30);
  auto detached = *submit(*loop, request_of(1, 5, 1000), [&calls] { calls.fetch_add(1); });
  detached->detach();
  const int before = calls.load();
  detached->cancel();
  read_all(*detached);
  EXPECT_EQ(calls.load(), before);
}

// A copy of the small checkpoint whose embedding of one token overflows in the first layer.
class Overflowing {
 public:
  static constexpr int32_t kBadToken = 300;

  Overflowing() {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    std::filesystem::copy(kSmall, dir_);
    const GoldenFile shard("tests/data/small/checkpoint/model-00001-of-00003.safetensors");
    const Json* entry = shard.header().find("embed.weight");
    const auto offset =
        static_cast<std::streamoff>(*entry->find("data_offsets")->items()[0].as_int());
    const auto hidden = *entry->find("shape")->items()[1].as_int();
    std::fstream file(dir_ / "model-00001-of-00003.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    file.seekp(8 + static_cast<std::streamoff>(header) + offset + kBadToken * hidden * 2);
    for (int64_t i = 0; i < hidden; ++i) {
      const uint16_t huge = bf16_encode(3e38F);
      file.write(reinterpret_cast<const char*>(&huge), sizeof huge);
    }
  }
  ~Overflowing() { std::filesystem::remove_all(dir_); }
  Overflowing(const Overflowing&) = delete;
  Overflowing& operator=(const Overflowing&) = delete;

  std::string dir() const { return dir_.string(); }

 private:
  std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("stoker_overflow_" + std::to_string(::getpid()));
};

TEST_F(EngineTest, LogitsThatAreNotFiniteFailTheirOwnRequestOnly) {
  const Overflowing bad;
  const Loaded loaded = load(bad.dir());
  TokenRequest healthy = request_of(5, 20, 30, 0);
  std::replace(healthy.prompt.begin(), healthy.prompt.end(), Overflowing::kBadToken, 301);
  std::vector<int32_t> expected;
  {
    const auto loop = start(*loaded.model, 1, roomy());
    expected = read_all(**submit(*loop, healthy, {})).tokens;
  }
  const auto loop = start(*loaded.model, 2, roomy());
  TokenRequest broken = request_of(6, 20, 30);
  broken.prompt[10] = Overflowing::kBadToken;
  auto good = *submit(*loop, healthy, {});
  auto failed = *submit(*loop, broken, {});
  const Outcome outcome = read_all(*failed);
  ASSERT_EQ(outcome.end, End::kError);
  EXPECT_EQ(outcome.error->code, ErrorCode::kInternal);
  EXPECT_NE(outcome.error->message.find("finite"), std::string::npos) << outcome.error->message;
  EXPECT_EQ(read_all(*good).tokens, expected);
  EXPECT_TRUE(loop->healthy());
}

// Whoever runs, waits or comes later gets the error, and nobody waits for ever.
TEST_F(EngineTest, AFaultEndsEveryRequestWithItsError) {
  EngineLimits limits = roomy();
  limits.max_num_seqs = 1;
  const auto loop = start(model(), 2, limits);
  auto running = *submit(*loop, request_of(1, 10, 400), {});
  while (running->take().tokens.empty()) running->wait(10s);
  auto waiting = *submit(*loop, request_of(2, 10, 400), {});
  loop->fail({ErrorCode::kCorruptData, "chunk 7 is damaged", ""});
  loop->fail({ErrorCode::kInternal, "a later fault", ""});
  EXPECT_FALSE(loop->healthy());
  const auto refused = submit(*loop, request_of(3, 10, 4), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "chunk 7 is damaged");
  for (TokenStream* stream : {running.get(), waiting.get()}) {
    const Outcome outcome = read_all(*stream);
    ASSERT_EQ(outcome.end, End::kError);
    EXPECT_EQ(outcome.error->code, ErrorCode::kCorruptData);
    EXPECT_EQ(outcome.error->message, "chunk 7 is damaged");
  }
  loop->drain(10s);
}

TEST_F(EngineTest, APrefixIsSavedAndLoadedBetweenSteps) {
  const TokenRequest request = request_of(4, 300, 5);
  const auto loop = start(model(), 2, roomy());
  const auto stream = *submit(*loop, request, {});
  const auto other = *submit(*loop, request_of(5, 50, 200), {});  // runs meanwhile
  const Outcome outcome = read_all(*stream);
  std::vector<uint8_t> bytes;
  const auto num_tokens = loop->save_prefix(request.prompt, bytes);
  ASSERT_TRUE(num_tokens) << num_tokens.error().message;
  EXPECT_EQ(*num_tokens, 256);
  const auto ends = loop->cached_prefixes(8);
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->front().size(), 256U);

  const auto second = start(model(), 1, roomy());
  const auto saved = SavedPrefix::read(bytes, model().state_shape(), model().config().vocab_size);
  ASSERT_TRUE(saved) << saved.error().message;
  const auto loaded = second->load_prefix(*saved);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, 256);
  EXPECT_EQ(read_all(**submit(*second, request, {})).tokens, outcome.tokens);
  EXPECT_EQ(second->stats().total_cached_tokens, 256);
  read_all(*other);
}

TEST_F(EngineTest, ADrainedEngineSavesAndAnEndedOneSaysSo) {
  const TokenRequest request = request_of(4, 200, 2);
  const auto loop = start(model(), 1, roomy());
  read_all(**submit(*loop, request, {}));
  loop->drain(100ms);
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(loop->save_prefix(request.prompt, bytes));
  loop->stop();
  const auto refused = loop->save_prefix(request.prompt, bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCancelled);
}

TEST_F(EngineTest, WithoutAPrefixCacheNothingIsSavedOrLoaded) {
  EngineLimits limits = roomy();
  limits.prefix_cache = false;
  const auto loop = start(model(), 1, limits);
  std::vector<uint8_t> bytes;
  EXPECT_EQ(loop->save_prefix(std::vector<int32_t>(200, 3), bytes).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(loop->cached_prefixes(1).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace stoker::engine
