// The draft head against the golden vectors of tests/data/small, bit for bit: after every way to
// run the prompt, alone and beside others, at every level; and from images, under bounded replay,
// and with draft keys that begin late.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "model/model.h"
#include "support/golden.h"
#include "support/small_model.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

using testing::GoldenFile;
using testing::same_bits;
using testing::SmallModel;
using testing::store_for;

// What a round said.
struct Drafted {
  std::vector<int32_t> tokens;
  std::vector<float> confidence;
  std::vector<float> logits;  // [tokens, vocab]
};

// A prompt of the golden file, and what the reference drafts after it.
struct Case {
  std::vector<int32_t> ids;
  int32_t pending = 0;
  Drafted expected;
};

template <class T>
std::vector<int32_t> narrowed(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

class DraftTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    small_ = std::make_unique<SmallModel>();
    pool_ = std::make_unique<WorkerPool>(2);
  }
  static void TearDownTestSuite() {
    pool_.reset();
    small_.reset();
  }

  static const SmallModel& small() { return *small_; }
  static const ModelConfig& config() { return small_->config(); }
  static size_t block() { return static_cast<size_t>(config().dspark_block_size); }
  static size_t vocab() { return static_cast<size_t>(config().vocab_size); }
  static Workspace workspace(int64_t max_rows = 64) {
    return {config(), *pool_, *kernels::default_plan(), max_rows};
  }

  static std::vector<Case> cases() {
    const GoldenFile golden("tests/data/small/golden/drafts.safetensors");
    const std::vector<int64_t> lengths = golden.i64("lengths");
    const std::vector<int32_t> ids = narrowed(golden.i64("ids"));
    const std::vector<int32_t> pending = narrowed(golden.i64("pending"));
    const std::vector<int32_t> drafts = narrowed(golden.i64("drafts"));
    const std::vector<float> confidence = golden.f32("confidence");
    const std::vector<float> logits = golden.f32("logits");
    const auto longest = static_cast<size_t>(golden.shape("ids")[1]);
    std::vector<Case> out;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto part = [i](const auto& all, size_t size) {
        return std::vector(all.begin() + static_cast<int64_t>(i * size),
                           all.begin() + static_cast<int64_t>((i + 1) * size));
      };
      Case one{part(ids, longest),
               pending[i],
               {part(drafts, block()), part(confidence, block()), part(logits, block() * vocab())}};
      one.ids.resize(static_cast<size_t>(lengths[i]));
      out.push_back(std::move(one));
    }
    return out;
  }

  static SequenceState new_state(KvStore& store) {
    auto state = SequenceState::create(store, 4);
    EXPECT_TRUE(state && state->reserve(300));
    return *std::move(state);
  }

  // Runs ids in chunks, with the keys that a round at their end needs.
  static void run(const Model& model, Workspace& work, SequenceState& state,
                  std::span<const int32_t> ids, int64_t chunk) {
    const auto end = state.length() + static_cast<int64_t>(ids.size());
    while (!ids.empty()) {
      const size_t rows = std::min(ids.size(), static_cast<size_t>(chunk));
      const Segment segment{&state, ids.first(rows), {}, end - config().sliding_window};
      model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
      ids = ids.subspan(rows);
    }
  }

  // A round for every one of `states`.
  static std::vector<Drafted> draft(const Model& model, Workspace& work,
                                    const std::vector<SequenceState*>& states,
                                    const std::vector<int32_t>& pending, size_t num_drafts) {
    std::vector<Drafted> out(states.size());
    std::vector<DraftJob> jobs;
    for (size_t i = 0; i < states.size(); ++i) {
      out[i].tokens.resize(num_drafts);
      out[i].confidence.resize(num_drafts);
      out[i].logits.resize(num_drafts * vocab());
      jobs.push_back({states[i], pending[i], out[i].tokens, out[i].confidence});
    }
    model.draft(work, jobs,
                [&](size_t job, int64_t position, std::span<const float> logits, int /*worker*/) {
                  const auto k = static_cast<size_t>(position - states[job]->length() - 1);
                  std::ranges::copy(logits,
                                    out[job].logits.begin() + static_cast<int64_t>(k * vocab()));
                  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
                });
    const FlushDenormals flush;
    for (Drafted& one : out)
      std::ranges::transform(one.confidence, one.confidence.begin(), arith::sigmoid);
    return out;
  }

  static Drafted draft(const Model& model, Workspace& work, SequenceState& state, int32_t pending) {
    return draft(model, work, {&state}, {pending}, block())[0];
  }

  static ::testing::AssertionResult same(const Drafted& actual, const Drafted& expected) {
    if (auto equal = same_bits(actual.logits, expected.logits); !equal) return equal << " (logits)";
    if (auto equal = same_bits(actual.confidence, expected.confidence); !equal)
      return equal << " (confidence)";
    if (actual.tokens != expected.tokens) return ::testing::AssertionFailure() << "other tokens";
    return ::testing::AssertionSuccess();
  }

 private:
  static std::unique_ptr<SmallModel> small_;
  static std::unique_ptr<WorkerPool> pool_;
};
std::unique_ptr<SmallModel> DraftTest::small_;
std::unique_ptr<WorkerPool> DraftTest::pool_;

TEST_F(DraftTest, RoundsOfAGreedyContinuation) {
  const GoldenFile golden("tests/data/small/golden/golden.safetensors");
  const std::vector<int32_t> ids = narrowed(golden.i64("decode.ids"));
  const std::vector<int32_t> drafts = narrowed(golden.i64("decode.drafts"));
  const std::vector<float> confidence = golden.f32("decode.confidence");
  const std::vector<int64_t> at = golden.i64("decode.at");
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  SequenceState state = new_state(*store);
  std::vector<float> logits(vocab());
  std::vector<int32_t> next = narrowed(golden.i64("decode.prompt"));
  for (size_t round = 0; round < ids.size(); ++round) {
    const Segment segment{&state, next, {}, 0};
    const int64_t last = static_cast<int64_t>(next.size()) - 1;
    model.forward(work, {&segment, 1}, {&last, 1}, logits.data(), nullptr);
    next = {static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
    ASSERT_EQ(next[0], ids[round]);
    ASSERT_EQ(state.length(), at[round]);
    const Drafted found = draft(model, work, state, next[0]);
    for (size_t k = 0; k < block(); ++k) {
      EXPECT_EQ(found.tokens[k], drafts[round * block() + k]) << "round " << round;
      EXPECT_EQ(found.confidence[k], confidence[round * block() + k]) << "round " << round;
    }
  }
  EXPECT_EQ(work.arena().num_growths(), 0) << "what a step takes was there from the start";
}

TEST_F(DraftTest, EveryChunkingLevelAndNumberOfThreads) {
  const Model model = small().model();
  const auto store = store_for(model);
  for (const kernels::Isa isa : kernels::usable_levels()) {
    for (const int threads : {1, 3}) {
      WorkerPool pool(threads);
      Workspace work(config(), pool, kernels::plan_of(isa), 256);
      for (const Case& one : cases()) {
        for (const int64_t chunk : {1, 7, 64, 300}) {
          SequenceState state = new_state(*store);
          run(model, work, state, one.ids, chunk);
          EXPECT_TRUE(same(draft(model, work, state, one.pending), one.expected))
              << one.ids.size() << " tokens in chunks of " << chunk << ", " << threads
              << " threads, " << kernels::isa_name(isa);
        }
      }
      EXPECT_EQ(work.arena().num_growths(), 0);
    }
  }
}

// Many sequences in one round, whatever goes together: more than one part of rows, more than one
// group of chains.
TEST_F(DraftTest, ManySequencesInOneRound) {
  const Model model = small().model();
  const std::vector<Case> all = cases();
  const auto store = store_for(model, static_cast<int32_t>(all.size()));
  Workspace work = workspace(256);
  std::vector<SequenceState> states;
  for (const Case& one : all) {
    states.push_back(new_state(*store));
    run(model, work, states.back(), one.ids, 300);
  }
  for (const size_t count : {all.size(), size_t{40}}) {
    std::vector<SequenceState*> jobs;
    std::vector<int32_t> pending;
    for (size_t i = 0; i < count; ++i) {
      jobs.push_back(&states[i % all.size()]);
      pending.push_back(all[i % all.size()].pending);
    }
    for (const int64_t max_rows : {4, 37, 256}) {
      Workspace own = workspace(max_rows);
      const auto found = draft(model, own, jobs, pending, block());
      for (size_t i = 0; i < count; ++i)
        EXPECT_TRUE(same(found[i], all[i % all.size()].expected)) << i << " of " << count;
    }
  }
}

// Neither a batch of prompts nor what the others' keys are asked for changes one's own.
TEST_F(DraftTest, PromptsInOneBatch) {
  const Model model = small().model();
  const std::vector<Case> all = cases();
  const auto store = store_for(model, static_cast<int32_t>(all.size()));
  Workspace work = workspace(1024);
  std::vector<SequenceState> states;
  for (size_t i = 0; i < all.size(); ++i) states.push_back(new_state(*store));
  std::vector<Segment> batch;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t from = static_cast<int64_t>(all[i].ids.size()) - config().sliding_window;
    batch.push_back({&states[i], all[i].ids, {}, i % 3 == 1 ? Segment::kNoDraftKeys : from});
  }
  model.forward(work, batch, {}, nullptr, nullptr);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 3 == 1) {
      EXPECT_EQ(states[i].draft_from(), states[i].length());
    } else {
      EXPECT_TRUE(same(draft(model, work, states[i], all[i].pending), all[i].expected)) << i;
    }
  }
}

TEST_F(DraftTest, FewerDraftsAreTheFirstOnes) {
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases().back();
  SequenceState state = new_state(*store);
  run(model, work, state, one.ids, 64);
  for (size_t count = 0; count <= block(); ++count) {
    Drafted expected = one.expected;
    expected.tokens.resize(count);
    expected.confidence.resize(count);
    expected.logits.resize(count * vocab());
    EXPECT_TRUE(same(draft(model, work, {&state}, {one.pending}, count)[0], expected)) << count;
  }
}

// Whoever chooses is told the job and the position, and later drafts follow what he chose.
TEST_F(DraftTest, TheChoiceIsTheCallers) {
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases().back();
  SequenceState state = new_state(*store);
  run(model, work, state, one.ids, 64);
  std::vector<int32_t> tokens(2 * block());
  std::vector<float> confidence(2 * block());
  const std::span<int32_t> all(tokens);
  std::vector<DraftJob> jobs;
  for (size_t i = 0; i < 2; ++i) {
    jobs.push_back({&state, one.pending, all.subspan(i * block(), block()),
                    std::span(confidence).subspan(i * block(), block())});
  }
  std::vector<std::vector<float>> second(2);
  model.draft(work, jobs,
              [&](size_t job, int64_t position, std::span<const float> logits, int /*worker*/) {
                if (position == state.length() + 2)
                  second[job].assign(logits.begin(), logits.end());
                return static_cast<int32_t>(100 * (job + 1) + static_cast<size_t>(position) % 100);
              });
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < block(); ++k) {
      EXPECT_EQ(static_cast<size_t>(jobs[i].tokens[k]),
                100 * (i + 1) + (one.ids.size() + 1 + k) % 100);
    }
    EXPECT_FALSE(same_bits(second[i], std::span(one.expected.logits).subspan(vocab(), vocab())));
  }
  EXPECT_FALSE(same_bits(second[0], second[1]));
}

TEST_F(DraftTest, TheLargestLogitIsChosenWithoutAChoice) {
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases()[4];
  SequenceState state = new_state(*store);
  run(model, work, state, one.ids, 64);
  std::vector<int32_t> tokens(block());
  std::vector<float> confidence(block());
  const DraftJob job{&state, one.pending, tokens, confidence};
  model.draft(work, {&job, 1});
  EXPECT_EQ(tokens, one.expected.tokens);
}

// Bounded replay leaves out rows that nobody reads, this head included.
TEST_F(DraftTest, ExactReplayChangesNoDraft) {
  const Model model = small().model(small().replay(ReplayMode::kExact));
  const auto store = store_for(model);
  Workspace work = workspace();
  for (const Case& one : cases()) {
    for (const int64_t chunk : {7, 300}) {
      SequenceState state = new_state(*store);
      state.set_late_from(model.replay().late_from(static_cast<int64_t>(one.ids.size()) - 1));
      run(model, work, state, one.ids, chunk);
      EXPECT_TRUE(same(draft(model, work, state, one.pending), one.expected))
          << one.ids.size() << " tokens in chunks of " << chunk;
    }
  }
}

// Rows that do not run the target layers have no keys, whoever asks for them.
TEST_F(DraftTest, NoKeysBelowTheGate) {
  const Model model = small().model(small().replay(ReplayMode::kExact));
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases().back();
  SequenceState state = new_state(*store);
  state.set_late_from(model.replay().late_from(static_cast<int64_t>(one.ids.size()) - 1));
  for (std::span<const int32_t> ids(one.ids); !ids.empty();) {
    const size_t rows = std::min<size_t>(ids.size(), 10);
    const Segment segment{&state, ids.first(rows), {}, 0};
    model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
    EXPECT_GE(state.draft_from(), std::min(state.late_from(), state.length()));
    ids = ids.subspan(rows);
  }
  EXPECT_TRUE(same(draft(model, work, state, one.pending), one.expected));
}

// A sequence that begins from an image drafts as if it had never stopped.
TEST_F(DraftTest, ImagesHoldTheDraftKeys) {
  const std::vector<Case> all = cases();
  const Case& one = all.back();
  for (const auto mode : {ReplayMode::kOff, ReplayMode::kExact}) {
    const Model model = small().model(small().replay(mode));
    const auto store = store_for(model);
    Workspace work = workspace();
    for (const size_t chunk : {size_t{1}, size_t{37}, one.ids.size()}) {
      const ImageUnitId early = *store->take_image_unit();
      const ImageUnitId late = *store->take_image_unit();
      const Capture capture{
          128, SlotImage(store->shape(), store->image_unit(early),
                         store->shape().has_late_rings() ? store->image_unit(late) : nullptr)};
      SequenceState first = new_state(*store);
      first.set_late_from(model.replay().late_from(128));
      while (first.length() < 128) {
        const auto at = static_cast<size_t>(first.length());
        const size_t rows = std::min(chunk, one.ids.size() - at);
        // Chunks keep keys for the end alone: those of the image are kept all the same.
        const int64_t from = chunk == 1 ? 0 : static_cast<int64_t>(one.ids.size()) - 9;
        const Segment segment{&first, std::span(one.ids).subspan(at, rows),
                              std::span(&capture, at + rows >= 128 ? 1 : 0), from};
        model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
      }
      SequenceState second = *SequenceState::create(*store, 4);
      second.share(std::span(first.blocks()).first(1));
      ASSERT_TRUE(second.reserve(300));
      second.restore(capture.image, 128);
      EXPECT_LE(second.draft_from(), 120);
      run(model, work, second, std::span(one.ids).subspan(128), 300);
      EXPECT_TRUE(same(draft(model, work, second, one.pending), one.expected)) << chunk;
      store->release_image_unit(early);
      store->release_image_unit(late);
    }
  }
}

// Rings that were never filled are not read: their bytes are what remained of others.
TEST_F(DraftTest, OnlyKeysThatWereKeptAreRead) {
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases().back();
  const int64_t window = config().sliding_window;
  const auto drafted = [&](int64_t keys, uint8_t rest) {
    SequenceState state = new_state(*store);
    for (int32_t stage = 0; stage < config().num_nextn_predict_layers; ++stage) {
      for (int64_t i = 0; i < store->shape().ring_rows(); ++i) {
        std::fill_n(state.window_row(config().num_hidden_layers + stage, i),
                    store->shape().window_record(), rest);
      }
    }
    const auto end = static_cast<int64_t>(one.ids.size());
    const Segment segment{&state, one.ids, {}, end - keys};
    model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
    EXPECT_EQ(state.draft_from(), end - keys);
    return draft(model, work, state, one.pending);
  };
  for (int64_t keys = 0; keys <= window; ++keys) {
    const Drafted found = drafted(keys, 0xFF);
    EXPECT_TRUE(same(found, drafted(keys, 0x00))) << keys << " keys";
    EXPECT_TRUE(std::ranges::all_of(found.logits, [](float x) { return std::isfinite(x); }));
    EXPECT_EQ(bool{same(found, one.expected)}, keys == window) << keys << " keys";
  }
}

// Keys that stop and begin again: nothing from before the gap is read.
TEST_F(DraftTest, AGapEndsTheKeys) {
  const Model model = small().model();
  const auto store = store_for(model);
  Workspace work = workspace();
  const Case one = cases().back();
  SequenceState state = new_state(*store);
  const std::span<const int32_t> ids(one.ids);
  run(model, work, state, ids.first(150), 64);
  EXPECT_EQ(state.draft_from(), 142);
  const auto step = [&](int64_t from) {
    const Segment segment{&state, ids.subspan(static_cast<size_t>(state.length()), 1), {}, from};
    model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
  };
  step(Segment::kNoDraftKeys);
  EXPECT_EQ(state.draft_from(), 151);
  step(0);
  EXPECT_EQ(state.draft_from(), 151);
  while (state.length() < 200) step(0);
  EXPECT_EQ(state.draft_from(), 151);
  EXPECT_TRUE(same(draft(model, work, state, one.pending), one.expected)) << "whole again";
}

}  // namespace
}  // namespace stoker
