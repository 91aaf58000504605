// A sequence whose drafts were run and rolled back is, byte for byte in all that a reader may see,
// the sequence that never had them: its rows' logits, its state, its images, and its next drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "equivalence/stepped_engine.h"
#include "support/golden.h"
#include "support/kv.h"

namespace stoker::testing {
namespace {

#ifdef STOKER_SANITIZED
constexpr bool kFewCuts = true;
#else
constexpr bool kFewCuts = false;
#endif

// What a state holds for its readers, part by part.
std::vector<std::pair<std::string, std::vector<uint8_t>>> readable(SequenceState& state,
                                                                   const KvShape& shape,
                                                                   const Replay& replay) {
  std::vector<std::pair<std::string, std::vector<uint8_t>>> parts;
  const int64_t n = state.length();
  const auto add = [&parts](const std::string& name, const auto* data, int64_t bytes) {
    const auto* first = reinterpret_cast<const uint8_t*>(data);
    parts.emplace_back(name, std::vector<uint8_t>(first, first + bytes));
  };
  const int64_t facts[] = {n, static_cast<int64_t>(state.blocks().size()), state.late_from(),
                           state.draft_from(), state.shared_until()};
  add("facts", facts, sizeof(facts));
  for (int32_t back = 1; back <= state.history_size(); ++back) {
    const int32_t token_class = state.history(back);
    add("history " + std::to_string(back), &token_class, sizeof(token_class));
  }
  for (int32_t ring = 0; ring < shape.num_rings; ++ring) {
    int64_t first = std::max<int64_t>(0, n - shape.window);
    const bool is_draft = ring >= shape.num_rings - shape.num_draft_rings;
    if (is_draft) first = std::max(first, state.draft_from());
    if (replay.mode != ReplayMode::kOff && ring >= replay.first_late)
      first = std::max(first, state.late_from());
    for (int64_t position = first; position < n; ++position) {
      add("ring " + std::to_string(ring) + " at " + std::to_string(position),
          state.window_row(ring, position), shape.window_record());
    }
  }
  for (size_t source = 0; source < shape.sources.size(); ++source) {
    const int64_t ratio = shape.sources[source].ratio;
    const std::string name = "source " + std::to_string(source);
    for (int64_t position = n / ratio * ratio; position < n; ++position) {
      add(name + " open kv", state.open_kv(source, position), shape.head_dim * 4);
      add(name + " open gate", state.open_gate(source, position), shape.head_dim * 4);
    }
    for (int64_t entry = 0; entry < n / ratio; ++entry) {
      add(name + " latent " + std::to_string(entry), state.latent(source, entry),
          shape.latent_record());
      add(name + " index key " + std::to_string(entry), state.index_key(source, entry),
          shape.index_record());
    }
  }
  return parts;
}

::testing::AssertionResult same_state(SequenceState& actual, SequenceState& expected,
                                      const KvShape& shape, const Replay& replay) {
  const auto a = readable(actual, shape, replay);
  const auto b = readable(expected, shape, replay);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i])
      return ::testing::AssertionFailure() << a[i].first << ", expected " << b[i].first;
  }
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "more or fewer parts";
  return ::testing::AssertionSuccess();
}

class Rollback : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kRoom = 512;  // tokens of a sequence

  void prepare(ReplayMode mode) {
    models_ = &Models::get(GetParam());
    model_ = &models_->model(mode);
    store_ = store_of(model_->state_shape(), 6, 4, 6 * blocks_for(kRoom));
  }

  const Model& model() const { return *model_; }
  const ModelConfig& config() const { return model_->config(); }
  int64_t block() const { return config().dspark_block_size; }
  size_t vocab() const { return static_cast<size_t>(config().vocab_size); }
  const KvShape& shape() const { return store_->shape(); }
  KvStore& store() { return *store_; }
  const Models& models() const { return *models_; }

  SequenceState new_state() { return *SequenceState::create(*store_, blocks_for(kRoom)); }

  // One step of one sequence, beside which others may run; all its logits.
  std::vector<float> step(SequenceState& state, std::span<const int32_t> ids,
                          std::span<const Capture> captures = {},
                          const std::vector<Segment>& others = {}) {
    EXPECT_TRUE(state.reserve(state.length() + static_cast<int64_t>(ids.size())));
    std::vector<Segment> batch = others;
    int64_t first = 0;
    for (const Segment& other : others) first += static_cast<int64_t>(other.ids.size());
    batch.push_back({&state, ids, captures, 0});
    std::vector<int64_t> wanted(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) wanted[i] = first + static_cast<int64_t>(i);
    std::vector<float> logits(ids.size() * vocab());
    model_->forward(work_(), batch, wanted, logits.data(), nullptr);
    return logits;
  }

  void prefill(SequenceState& state, std::span<const int32_t> ids) {
    state.set_late_from(model_->replay().late_from(static_cast<int64_t>(ids.size()) - 1));
    ASSERT_TRUE(state.reserve(static_cast<int64_t>(ids.size())));
    const Segment segment{&state, ids, {}, 0};
    model_->forward(work_(), {&segment, 1}, {}, nullptr, nullptr);
  }

  // Of a round: tokens, then the bits of the confidence.
  std::vector<int32_t> drafts(SequenceState& state, int32_t pending) {
    std::vector<int32_t> out(2 * static_cast<size_t>(block()));
    std::vector<float> confidence(static_cast<size_t>(block()));
    const DraftJob job{&state, pending, std::span(out).first(confidence.size()), confidence};
    model_->draft(work_(), {&job, 1});
    std::ranges::transform(confidence, out.begin() + block(),
                           [](float x) { return std::bit_cast<int32_t>(x); });
    return out;
  }

  // A pending token and `drafts` after it, of which the first `good` are what follows in `truth`.
  std::vector<int32_t> run_of(const std::vector<int32_t>& truth, int64_t at, int64_t drafts,
                              int64_t good, std::mt19937& random) const {
    std::vector<int32_t> ids(truth.begin() + at, truth.begin() + at + 1 + drafts);
    for (int64_t k = good; k < drafts; ++k) {
      auto& id = ids[static_cast<size_t>(k + 1)];
      const auto other = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab() - 8));
      if (k > good || other != id) {
        id = other;
      } else {
        id = other + 1;
      }
    }
    return ids;
  }

 private:
  Workspace& work_() {
    if (!work_space_) {
      pool_.emplace(2);
      work_space_.emplace(config(), *pool_, *kernels::default_plan(), 256);
    }
    return *work_space_;
  }

  const Models* models_ = nullptr;
  const Model* model_ = nullptr;
  std::unique_ptr<KvStore> store_;
  std::optional<WorkerPool> pool_;
  std::optional<Workspace> work_space_;
};

INSTANTIATE_TEST_SUITE_P(Models, Rollback, ::testing::Values("small", "demo"),
                         [](const auto& model) { return model.param; });

// Random drafts, accepted as far as it happens, from prompts of every kind of length.
TEST_P(Rollback, LeavesTheStateOfARunWithoutDrafts) {
  for (const ReplayMode mode : {ReplayMode::kOff, ReplayMode::kExact}) {
    prepare(mode);
    for (const int64_t prompt : {int64_t{1}, int64_t{7}, int64_t{30}, int64_t{119}, int64_t{122},
                                 int64_t{127}, int64_t{128}, int64_t{250}, int64_t{255}}) {
      if (kFewCuts && prompt != 1 && prompt != 122) continue;
      std::mt19937 random(static_cast<uint32_t>(prompt));
      const std::vector<int32_t> truth = random_ids(models(), static_cast<uint32_t>(prompt), kRoom);
      SequenceState plain = new_state();
      SequenceState drafted = new_state();
      prefill(plain, std::span(truth).first(static_cast<size_t>(prompt)));
      prefill(drafted, std::span(truth).first(static_cast<size_t>(prompt)));
      for (int round = 0; round < (kFewCuts ? 6 : 16); ++round) {
        const int64_t at = drafted.length();
        const auto num_drafts = static_cast<int64_t>(random() % static_cast<uint32_t>(block() + 1));
        const auto good = static_cast<int64_t>(random() % static_cast<uint32_t>(num_drafts + 1));
        const std::vector<int32_t> ids = run_of(truth, at, num_drafts, good, random);
        const std::vector<float> rows = step(drafted, ids);
        drafted.roll_back(num_drafts - good);
        for (int64_t k = 0; k <= good; ++k) {
          const std::vector<float> expected =
              step(plain, std::span(truth).subspan(static_cast<size_t>(at + k), 1));
          EXPECT_TRUE(same_bits(std::span(rows).subspan(static_cast<size_t>(k) * vocab(), vocab()),
                                expected))
              << "row " << k << " at " << at;
        }
        ASSERT_TRUE(same_state(drafted, plain, shape(), model().replay()))
            << num_drafts << " drafts at " << at << ", " << good << " accepted";
        const int32_t pending = truth[static_cast<size_t>(drafted.length())];
        ASSERT_EQ(drafts(drafted, pending), drafts(plain, pending));
      }
    }
  }
}

// Every number of drafts and of accepted ones, at every position around the end of a block.
TEST_P(Rollback, EveryRunAroundTheEndOfABlock) {
  prepare(ReplayMode::kExact);
  std::mt19937 random(5);
  const std::vector<int32_t> truth = random_ids(models(), 9, kRoom);
  for (int64_t at = 123; at < 130; ++at) {
    if (kFewCuts && at % 3 != 1) continue;
    for (int64_t good = 0; good <= block(); ++good) {
      SequenceState expected = new_state();
      prefill(expected, std::span(truth).first(static_cast<size_t>(at)));
      while (expected.length() < at + good + 1)
        step(expected, std::span(truth).subspan(static_cast<size_t>(expected.length()), 1));
      for (int64_t num_drafts = good; num_drafts <= block(); ++num_drafts) {
        SequenceState drafted = new_state();
        prefill(drafted, std::span(truth).first(static_cast<size_t>(at)));
        step(drafted, run_of(truth, at, num_drafts, good, random));
        drafted.roll_back(num_drafts - good);
        ASSERT_TRUE(same_state(drafted, expected, shape(), model().replay()))
            << num_drafts << " drafts at " << at << ", " << good << " accepted";
      }
    }
  }
}

// Runs of several sequences with chunks of prompts and plain decodes in one step.
TEST_P(Rollback, BesideOthersInAMixedStep) {
  prepare(ReplayMode::kExact);
  std::mt19937 random(11);
  const std::vector<int32_t> truth = random_ids(models(), 1, kRoom);
  const std::vector<int32_t> other = random_ids(models(), 2, kRoom);
  SequenceState plain = new_state();
  SequenceState drafted = new_state();
  SequenceState prompt = new_state();
  SequenceState second = new_state();
  prefill(plain, std::span(truth).first(100));
  prefill(drafted, std::span(truth).first(100));
  prefill(second, std::span(other).first(33));
  ASSERT_TRUE(prompt.reserve(kRoom));
  while (drafted.length() < 140) {
    const auto good = static_cast<int64_t>(random() % static_cast<uint32_t>(block() + 1));
    const int64_t at = drafted.length();
    const std::vector<int32_t> ids = run_of(truth, at, block(), good, random);
    const std::vector<int32_t> others = run_of(other, second.length(), 2, 1, random);
    ASSERT_TRUE(second.reserve(second.length() + 3));
    const std::span<const int32_t> chunk =
        std::span(other).subspan(static_cast<size_t>(prompt.length()), 1 + random() % 20);
    step(drafted, ids, {}, {{&second, others, {}, 0}, {&prompt, chunk, {}, 0}});
    drafted.roll_back(block() - good);
    second.roll_back(1);
    for (int64_t k = 0; k <= good; ++k)
      step(plain, std::span(truth).subspan(static_cast<size_t>(at + k), 1));
    ASSERT_TRUE(same_state(drafted, plain, shape(), model().replay())) << "at " << at;
  }
  SequenceState expected = new_state();
  prefill(expected, std::span(other).first(33));
  while (expected.length() < second.length())
    step(expected, std::span(other).subspan(static_cast<size_t>(expected.length()), 1));
  EXPECT_TRUE(same_state(second, expected, shape(), model().replay())) << "the other one";
}

// An image that a run made, of a position that was accepted.
TEST_P(Rollback, ImagesOfAcceptedPositionsAreGood) {
  for (const ReplayMode mode : {ReplayMode::kOff, ReplayMode::kExact}) {
    prepare(mode);
    std::mt19937 random(3);
    const std::vector<int32_t> truth = random_ids(models(), 4, kRoom);
    SequenceState plain = new_state();
    prefill(plain, std::span(truth).first(126));
    while (plain.length() < 128)
      step(plain, std::span(truth).subspan(static_cast<size_t>(plain.length()), 1));
    for (int64_t good = 1; good <= block(); ++good) {
      const ImageUnitId early = *store().take_image_unit();
      const ImageUnitId late = *store().take_image_unit();
      const Capture capture{
          128, SlotImage(shape(), store().image_unit(early),
                         shape().has_late_rings() ? store().image_unit(late) : nullptr)};
      {
        SequenceState drafted = new_state();
        prefill(drafted, std::span(truth).first(126));
        step(drafted, run_of(truth, 126, block(), good, random), {&capture, 1});
        drafted.roll_back(block() - good);
      }
      SequenceState restored = new_state();
      restored.share(std::span(plain.blocks()).first(1));
      restored.restore(capture.image, 128);
      const std::vector<float> logits = step(restored, std::span(truth).subspan(128, 1));
      SequenceState expected = new_state();
      prefill(expected, std::span(truth).first(126));
      while (expected.length() < 128)
        step(expected, std::span(truth).subspan(static_cast<size_t>(expected.length()), 1));
      EXPECT_TRUE(same_bits(logits, step(expected, std::span(truth).subspan(128, 1)))) << good;
      EXPECT_EQ(drafts(restored, truth[129]), drafts(expected, truth[129])) << good;
      store().release_image_unit(early);
      store().release_image_unit(late);
    }
  }
}

}  // namespace
}  // namespace stoker::testing
