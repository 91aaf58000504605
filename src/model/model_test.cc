// The backbone against the golden vectors of tests/data/small, bit for bit: every trace point,
// every way to cut the prompt into steps, alone and beside other sequences, on any number of
// threads.
#include "model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "model/packed_weights.h"
#include "support/golden.h"

namespace stoker {
namespace {

using testing::GoldenFile;
using testing::same_bits;

class ModelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    golden_ = std::make_unique<GoldenFile>("tests/data/small/golden/golden.safetensors");
    auto opened =
        Checkpoint::open(std::string(STOKER_SOURCE_DIR) + "/tests/data/small/checkpoint", 1);
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::make_unique<Checkpoint>(*std::move(opened));
    auto model = Model::create(checkpoint_->config(), checkpoint_->weights(), token_map());
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<Model>(*std::move(model));
    const KvShape shape = kv_shape(checkpoint_->config());
    auto store =
        KvStore::create(shape, *plan_kv(shape, {.bytes = int64_t{16} << 20, .max_num_seqs = 8}));
    ASSERT_TRUE(store);
    store_ = *std::move(store);
  }
  static void TearDownTestSuite() {
    store_.reset();
    model_.reset();
    checkpoint_.reset();
    golden_.reset();
  }

  static std::vector<int32_t> token_map() {
    std::vector<int32_t> map;
    for (const int64_t token_class : golden_->i64("token_map"))
      map.push_back(static_cast<int32_t>(token_class));
    map.resize(static_cast<size_t>(checkpoint_->config().vocab_size));
    return map;
  }

  static std::vector<int32_t> ids(const std::string& name) {
    std::vector<int32_t> out;
    for (const int64_t id : golden_->i64(name)) out.push_back(static_cast<int32_t>(id));
    return out;
  }

  // A state with room for 256 tokens.
  static SequenceState new_state() {
    auto state = SequenceState::create(*store_, 2);
    EXPECT_TRUE(state && state->reserve(256));
    return *std::move(state);
  }
  static Workspace workspace(WorkerPool& pool) {
    return {checkpoint_->config(), pool, *kernels::default_plan(), 64};
  }
  static int64_t vocab() { return checkpoint_->config().vocab_size; }

  // Logits of every row of `prompt`, run in chunks (the last length repeats), each step together
  // with the next rows of `others` where they have any left.
  static std::vector<float> run(Workspace& work, const std::vector<int32_t>& prompt,
                                const std::vector<int64_t>& chunks,
                                const std::vector<std::vector<int32_t>>& others = {},
                                Trace* trace = nullptr, const Model* model = nullptr) {
    if (model == nullptr) model = model_.get();
    std::vector<SequenceState> states;
    for (size_t i = 0; i <= others.size(); ++i) states.push_back(new_state());
    std::vector<float> all;
    size_t done = 0;
    for (size_t step = 0; done < prompt.size(); ++step) {
      const auto chunk = static_cast<size_t>(chunks[std::min(step, chunks.size() - 1)]);
      const size_t count = std::min(chunk, prompt.size() - done);
      std::vector<Segment> batch;
      for (size_t i = 0; i < others.size();
           ++i) {  // neighbours first, so that rows of ours start inside the batch
        const auto at = static_cast<size_t>(states[i + 1].length());
        const size_t rows = std::min<size_t>(others[i].size() - at, 1 + (step + i) % 5);
        if (rows > 0) batch.push_back({&states[i + 1], std::span(others[i]).subspan(at, rows)});
      }
      int64_t first = 0;
      for (const Segment& segment : batch) first += static_cast<int64_t>(segment.ids.size());
      batch.push_back({states.data(), std::span(prompt).subspan(done, count)});
      std::vector<int64_t> wanted;
      for (size_t i = 0; i < count; ++i) wanted.push_back(first + static_cast<int64_t>(i));
      std::vector<float> logits(count * static_cast<size_t>(vocab()));
      model->forward(work, batch, wanted, logits.data(), trace);
      all.insert(all.end(), logits.begin(), logits.end());
      done += count;
    }
    return all;
  }

  static std::vector<int32_t> some_ids(uint32_t seed, size_t count) {
    std::vector<int32_t> out;
    for (size_t i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      out.push_back(static_cast<int32_t>((seed >> 8) % 570));
    }
    return out;
  }

  static std::unique_ptr<GoldenFile> golden_;
  static std::unique_ptr<Checkpoint> checkpoint_;
  static std::unique_ptr<Model> model_;
  static std::unique_ptr<KvStore> store_;
};

std::unique_ptr<GoldenFile> ModelTest::golden_;
std::unique_ptr<Checkpoint> ModelTest::checkpoint_;
std::unique_ptr<Model> ModelTest::model_;
std::unique_ptr<KvStore> ModelTest::store_;

const std::vector<std::vector<int64_t>> kChunkings = {{1000}, {1}, {7}, {1, 30, 1000}, {64, 1000}};

std::string told(const std::vector<int64_t>& chunks, int threads) {
  std::string text = "chunks";
  for (const int64_t chunk : chunks) text += " " + std::to_string(chunk);
  return text + ", threads " + std::to_string(threads);
}

TEST_F(ModelTest, LogitsForEveryChunkingAndThreadCount) {
  const auto prompt = ids("prompt.ids");
  const auto expected = golden_->f32("prompt.logits");
  for (const int threads : {1, 2, 3}) {
    WorkerPool pool(threads);
    Workspace work = workspace(pool);
    for (const auto& chunks : kChunkings) {
      EXPECT_TRUE(same_bits(run(work, prompt, chunks), expected)) << told(chunks, threads);
    }
  }
}

// Packed weights on every level of this processor, with few rows and with many.
TEST_F(ModelTest, LogitsOfPackedWeights) {
  const auto prompt = ids("prompt.ids");
  const auto expected = golden_->f32("prompt.logits");
  WorkerPool pool(2);
  const PackedWeights packed = PackedWeights::make(checkpoint_->weights(), pool);
  const auto model = Model::create(checkpoint_->config(), packed.weights(), token_map());
  ASSERT_TRUE(model);
  int num_packed = 0;
  ModelWeights weights = packed.weights();
  for_each_matrix(weights, [&](const Weight& weight, bool /*parts*/) {
    num_packed += static_cast<int>(is_packed(weight.format));
  });
  EXPECT_GT(num_packed, 300) << "nearly all";
  for (const kernels::Isa isa : kernels::usable_levels()) {
    Workspace work(checkpoint_->config(), pool, kernels::plan_of(isa),
                   static_cast<int64_t>(prompt.size()));
    for (const auto& chunks : kChunkings) {
      EXPECT_TRUE(same_bits(run(work, prompt, chunks, {}, nullptr, &*model), expected))
          << isa_name(isa) << ", " << told(chunks, 2);
    }
    EXPECT_EQ(work.arena().num_growths(), 0) << "what a step takes was there from the start";
  }
}

// A level of this processor for each of a plan's choices.
kernels::KernelPlan drawn_plan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<kernels::Isa> usable = kernels::usable_levels();
  const auto draw = [&] { return &kernels::kernels_of(usable[random() % usable.size()]); };
  kernels::KernelPlan plan;
  for (auto& classes : plan.products) std::ranges::generate(classes, draw);
  plan.index_scores = draw();
  plan.rest = draw();
  return plan;
}

// A plan changes speed, never bits: levels drawn for every choice, and each level alone.
TEST_F(ModelTest, LogitsOfEveryPlan) {
  constexpr uint64_t kDrawn = 50;
  const auto prompt = ids("prompt.ids");
  const auto expected = golden_->f32("prompt.logits");
  WorkerPool packers(2);
  const PackedWeights packed = PackedWeights::make(checkpoint_->weights(), packers);
  const auto model = Model::create(checkpoint_->config(), packed.weights(), token_map());
  ASSERT_TRUE(model);
  std::vector<kernels::KernelPlan> plans;
  for (const kernels::Isa isa : kernels::usable_levels()) plans.push_back(kernels::plan_of(isa));
  for (uint64_t seed = 0; seed < kDrawn; ++seed) plans.push_back(drawn_plan(seed));
  for (size_t i = 0; i < plans.size(); ++i) {
    const int threads = 1 + static_cast<int>(i % 4);
    WorkerPool pool(threads);
    Workspace work(checkpoint_->config(), pool, plans[i], 64);
    for (const int64_t rows : {1, 3, 8, 64}) {
      EXPECT_TRUE(same_bits(run(work, prompt, {rows}, {}, nullptr, &*model), expected))
          << "plan " << i << ", " << told({rows}, threads);
    }
  }
}

TEST_F(ModelTest, LogitsBesideThreeOtherSequences) {
  const auto prompt = ids("prompt.ids");
  const auto expected = golden_->f32("prompt.logits");
  const std::vector<std::vector<int32_t>> others = {some_ids(1, 40), some_ids(2, 9),
                                                    some_ids(3, 200)};
  WorkerPool pool(2);
  Workspace work = workspace(pool);
  for (const auto& chunks : kChunkings) {
    EXPECT_TRUE(same_bits(run(work, prompt, chunks, others), expected)) << told(chunks, 2);
  }
}

TEST_F(ModelTest, EveryTracePoint) {
  const auto prompt = ids("prompt.ids");
  WorkerPool pool(2);
  Workspace work = workspace(pool);
  for (const auto& chunks : kChunkings) {
    Trace trace;
    run(work, prompt, chunks, {}, &trace);
    size_t num_points = 0;
    for (const auto& [name, tensor] : trace.floats) {
      const auto shape = golden_->shape("prompt." + name);
      ASSERT_FALSE(shape.empty()) << name;
      size_t width = 1;
      for (size_t i = 1; i < shape.size(); ++i) width *= static_cast<size_t>(shape[i]);
      std::vector<float> flat;
      for (std::vector<float> row : tensor.rows) {
        row.resize(
            width,
            -std::numeric_limits<float>::infinity());  // index scores: entries not visible yet
        flat.insert(flat.end(), row.begin(), row.end());
      }
      EXPECT_TRUE(same_bits(flat, golden_->f32("prompt." + name)))
          << name << ", " << told(chunks, 2);
      ++num_points;
    }
    EXPECT_EQ(num_points, 10U * 5 + 4)
        << "five points of ten layers, and the scores of four index sources";
    for (const auto& [name, tensor] : trace.integers) {
      if (name.ends_with("engram_rows")) continue;
      const auto width = static_cast<size_t>(golden_->shape("prompt." + name)[1]);
      std::vector<int64_t> flat;
      for (std::vector<int64_t> row : tensor.rows) {
        row.resize(width, -1);
        flat.insert(flat.end(), row.begin(), row.end());
      }
      EXPECT_EQ(flat, golden_->i64("prompt." + name)) << name << ", " << told(chunks, 2);
    }
    const auto rows = golden_->i64("prompt.engram_rows");  // [S, 2, 6]
    for (size_t i = 0; i < prompt.size(); ++i) {
      const auto& first = trace.integers.at("layers.1.engram_rows").rows[i];
      const auto& second = trace.integers.at("layers.4.engram_rows").rows[i];
      for (size_t column = 0; column < 6; ++column) {
        ASSERT_EQ(first[column], rows[i * 12 + column]);
        ASSERT_EQ(second[column], rows[i * 12 + 6 + column]);
      }
    }
  }
}

TEST_F(ModelTest, GreedyContinuation) {
  const auto expected = ids("decode.ids");
  WorkerPool pool(2);
  Workspace work = workspace(pool);
  SequenceState state = new_state();
  std::vector<int32_t> next = ids("decode.prompt");
  std::vector<float> logits(static_cast<size_t>(vocab()));
  for (const int32_t token : expected) {
    const Segment segment{&state, next};
    const int64_t last = static_cast<int64_t>(next.size()) - 1;
    model_->forward(work, {&segment, 1}, {&last, 1}, logits.data(), nullptr);
    const auto best =
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ASSERT_EQ(best, token);
    next = {best};
  }
}

// Field fault: the single-token path gave other logits than prefill, at some length.
TEST_F(ModelTest, DecodeEqualsPrefillAtEveryLength) {
  const auto prompt = ids("prompt.ids");
  const auto expected = golden_->f32("prompt.logits");
  WorkerPool pool(1);
  Workspace work = workspace(pool);
#ifdef STOKER_SANITIZED
  constexpr int64_t kStep = 29;
#else
  constexpr int64_t kStep = 5;
#endif
  for (int64_t n = 1; n < static_cast<int64_t>(prompt.size()); n += kStep) {
    EXPECT_TRUE(same_bits(run(work, prompt, {n, 1}), expected)) << n;
  }
}

TEST_F(ModelTest, RefusesATokenMapThatDoesNotFit) {
  auto map = token_map();
  map[5] = checkpoint_->config().engram_compressed_vocab_size;
  EXPECT_EQ(Model::create(checkpoint_->config(), checkpoint_->weights(), map).error().code,
            ErrorCode::kCorruptData);
  map.pop_back();
  EXPECT_EQ(Model::create(checkpoint_->config(), checkpoint_->weights(), map).error().code,
            ErrorCode::kCorruptData);
}

}  // namespace
}  // namespace stoker
