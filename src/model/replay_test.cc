// Bounded replay: exact gives the bits of off, with not one row more than it needs; compact does
// not depend on chunks; and images made while rows run give a slot from which the same bits follow.
#include "model/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "model/model.h"
#include "support/golden.h"
#include "support/small_model.h"

namespace stoker {
namespace {

using testing::GoldenFile;
using testing::same_bits;
using testing::SmallModel;
using testing::store_for;

constexpr int32_t kDecoded = 12;

// Logits of the last prompt row and of the greedy tokens after it.
using Logits = std::vector<std::vector<float>>;

class ReplayTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    small_ = std::make_unique<SmallModel>();
    pool_ = std::make_unique<WorkerPool>(2);
    work_ = std::make_unique<Workspace>(config(), *pool_, *kernels::default_plan(), 64);
  }
  static void TearDownTestSuite() {
    work_.reset();
    pool_.reset();
    small_.reset();
  }

  static Workspace& workspace() { return *work_; }
  static const ModelConfig& config() { return small_->config(); }
  static Replay replay(ReplayMode mode) { return small_->replay(mode); }
  static Model model_with(const Replay& replay) { return small_->model(replay); }

  static std::vector<int32_t> prompt_of(int64_t length) {
    std::vector<int32_t> ids;
    uint32_t x = 12345;
    for (int64_t i = 0; i < length; ++i) {
      x = x * 1664525 + 1013904223;
      ids.push_back(static_cast<int32_t>((x >> 8) % 570));
    }
    return ids;
  }

  // Runs ids from state.length() on in chunks, then decodes.
  static Logits finish(const Model& model, SequenceState& state, std::vector<int32_t> ids,
                       int64_t chunk) {
    Workspace& work = workspace();
    Logits out;
    const size_t total = ids.size() + kDecoded;
    while (ids.size() < total) {
      const auto first = static_cast<size_t>(state.length());
      const size_t rows = std::min(static_cast<size_t>(chunk), ids.size() - first);
      const Segment segment{&state, std::span(ids).subspan(first, rows)};
      const bool is_last = first + rows == ids.size();
      const auto last = static_cast<int64_t>(rows) - 1;
      std::vector<float> logits(static_cast<size_t>(config().vocab_size));
      const std::span<const int64_t> wanted(&last, is_last ? 1 : 0);
      model.forward(work, {&segment, 1}, wanted, logits.data(), nullptr);
      if (!is_last) continue;
      ids.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
      out.push_back(std::move(logits));
    }
    return out;
  }

  static Logits run(const Replay& replay, int64_t length, int64_t chunk) {
    const Model model = model_with(replay);
    const auto store = store_for(model);
    auto state = SequenceState::create(*store, 8);
    EXPECT_TRUE(state->reserve(length + kDecoded));
    state->set_late_from(replay.late_from(length - 1));
    return finish(model, *state, prompt_of(length), chunk);
  }

  static ::testing::AssertionResult same(const Logits& actual, const Logits& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto equal = same_bits(actual[i], expected[i]);
      if (!equal) return ::testing::AssertionFailure() << "token " << i << ": " << equal.message();
    }
    return ::testing::AssertionSuccess();
  }

 private:
  static std::unique_ptr<SmallModel> small_;
  static std::unique_ptr<WorkerPool> pool_;
  static std::unique_ptr<Workspace> work_;
};
std::unique_ptr<SmallModel> ReplayTest::small_;
std::unique_ptr<WorkerPool> ReplayTest::pool_;
std::unique_ptr<Workspace> ReplayTest::work_;

TEST_F(ReplayTest, TheRowsOfTheReleasedDepth) {
  ModelConfig released = config();
  released.num_hidden_layers = 40;
  released.sliding_window = 128;
  released.compress_ratios.assign(43, 1);
  released.kv_source_layer_ids = {2, 8, 14, 20};
  released.engram_layer_ids = {1, 14};
  EXPECT_EQ(make_replay(released, ReplayMode::kExact)->num_kept_rows, 2414);
  EXPECT_EQ(make_replay(released, ReplayMode::kExact)->first_late, 21);
  EXPECT_EQ(make_replay(released, ReplayMode::kCompact)->num_kept_rows, 140);
  EXPECT_EQ(make_replay(released, ReplayMode::kCompact)->first_late, 20);
}

TEST_F(ReplayTest, WhatCannotBeLeftOutIsRefused) {
  for (const auto mode : {ReplayMode::kExact, ReplayMode::kCompact}) {
    ModelConfig other = config();
    other.engram_layer_ids.back() = 8;
    EXPECT_EQ(make_replay(other, mode).error().code, ErrorCode::kUnsupported);
    other = config();
    other.compress_ratios[6] = 2;
    EXPECT_EQ(make_replay(other, mode).error().code, ErrorCode::kUnsupported);
    other = config();
    other.kv_source_layer_ids.clear();
    EXPECT_EQ(make_replay(other, mode).error().code, ErrorCode::kUnsupported);
    other = config();
    other.kv_source_layer_ids.back() = 9;
    EXPECT_EQ(make_replay(other, mode).error().code, ErrorCode::kUnsupported);
  }
}

TEST_F(ReplayTest, ExactEqualsOff) {
  const Replay exact = replay(ReplayMode::kExact);
  ASSERT_EQ(exact.num_kept_rows, 8 + 2 * 7);
  for (const int64_t length : {1, 21, 22, 23, 40, 128, 129, 201}) {
    const Logits off = run(Replay{}, length, length);
    for (const int64_t chunk : {length, int64_t{1}, int64_t{7}, int64_t{64}}) {
      EXPECT_TRUE(same(run(exact, length, chunk), off)) << length << " tokens, chunks of " << chunk;
    }
  }
}

TEST_F(ReplayTest, ExactNeedsEveryRowItKeeps) {
  Replay less = replay(ReplayMode::kExact);
  --less.num_kept_rows;
  EXPECT_FALSE(same(run(less, 201, 64), run(Replay{}, 201, 64)));
}

TEST_F(ReplayTest, CompactIsTheSameForEveryChunkAndAnotherModeThanOff) {
  const Replay compact = replay(ReplayMode::kCompact);
  const Logits whole = run(compact, 150, 150);
  EXPECT_FALSE(same(whole, run(Replay{}, 150, 150)));
  for (const int64_t chunk : {1, 7, 64})
    EXPECT_TRUE(same(run(compact, 150, chunk), whole)) << "chunks of " << chunk;
  const int64_t all_kept = compact.num_kept_rows;
  EXPECT_TRUE(same(run(compact, all_kept, 8), run(Replay{}, all_kept, 8)))
      << "nothing is left out of so short a prompt";
}

// The reference masks what this leaves out (tools/reference/make_compact_golden.py).
TEST_F(ReplayTest, CompactEqualsTheMaskedReference) {
  const GoldenFile golden("tests/data/small/golden/compact.safetensors");
  const Replay compact = replay(ReplayMode::kCompact);
  std::vector<int32_t> ids;
  for (const int64_t id : golden.i64("ids")) ids.push_back(static_cast<int32_t>(id));
  const auto length = static_cast<int64_t>(ids.size());
  ASSERT_EQ(compact.late_from(length - 1), golden.i64("gate")[0]);
  const std::vector<float> expected = golden.f32("logits");
  const auto vocab = static_cast<size_t>(config().vocab_size);
  const Model model = model_with(compact);
  for (const int64_t chunk : {length, int64_t{9}}) {
    const auto store = store_for(model);
    auto state = SequenceState::create(*store, 8);
    ASSERT_TRUE(state->reserve(length + kDecoded));
    state->set_late_from(compact.late_from(length - 1));
    const Logits logits = finish(model, *state, ids, chunk);
    ASSERT_EQ(logits.size() * vocab, expected.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_TRUE(same_bits(logits[i], std::span(expected).subspan(i * vocab, vocab)))
          << "token " << i << ", chunks of " << chunk;
    }
  }
}

// Images are made in the middle of a chunk, at its end and row by row; what follows from them are
// the bits of a run that was not interrupted.
TEST_F(ReplayTest, ImagesGiveTheBitsOfAnUninterruptedRun) {
  for (const auto mode : {ReplayMode::kOff, ReplayMode::kExact, ReplayMode::kCompact}) {
    const Replay with = replay(mode);
    const Model model = model_with(with);
    const auto store = store_for(model);
    const std::vector<int32_t> ids = prompt_of(300);
    const int64_t late_from = with.late_from(299);
    for (const int64_t chunk : {300, 37}) {
      for (const bool whole : {false, true}) {
        if (whole && !with.rings_are_exact(256, 0)) continue;
        const ImageUnitId early = *store->take_image_unit();
        const ImageUnitId late = *store->take_image_unit();
        const SlotImage image(
            store->shape(), store->image_unit(early),
            whole && store->shape().has_late_rings() ? store->image_unit(late) : nullptr);
        auto first = SequenceState::create(*store, 8);
        ASSERT_TRUE(first->reserve(320));
        first->set_late_from(whole ? with.late_from(256) : late_from);
        Workspace& work = workspace();
        while (first->length() < 256) {
          const auto at = static_cast<size_t>(first->length());
          const size_t rows = std::min(static_cast<size_t>(chunk), ids.size() - at);
          const Capture capture{256, image};
          const bool now = at + rows >= 256;
          const Segment segment{&*first, std::span(ids).subspan(at, rows),
                                std::span(&capture, now ? 1 : 0)};
          model.forward(work, {&segment, 1}, {}, nullptr, nullptr);
        }
        auto second = SequenceState::create(*store, 8);
        second->share(std::span(first->blocks()).first(2));
        ASSERT_TRUE(second->reserve(320));
        second->restore(image, 256);
        second->set_late_from(whole ? 0 : late_from);
        EXPECT_TRUE(same(finish(model, *second, ids, 300), run(with, 300, 300)))
            << "mode " << static_cast<int>(mode) << ", chunks of " << chunk << ", whole " << whole;
        store->release_image_unit(early);
        store->release_image_unit(late);
      }
    }
  }
}

}  // namespace
}  // namespace stoker
