// The scheduler without a model: sequences are advanced by hand.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace stoker::engine {
namespace {

KvShape tiny_shape() {
  return {.num_rings = 1,
          .num_early_rings = 1,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 4,
          .history = 0,
          .sources = {{0, 1}}};
}

std::unique_ptr<KvStore> store_of(int64_t num_blocks, int32_t num_slots) {
  const KvShape shape = tiny_shape();
  KvPlan plan;
  plan.num_slots = num_slots;
  plan.num_blocks = num_blocks;
  plan.total_bytes = num_slots * shape.slot_bytes() + num_blocks * shape.block_bytes();
  return *KvStore::create(shape, plan);
}

std::unique_ptr<Sequence> sequence_of(int64_t prompt, int32_t max_tokens) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request.prompt.assign(static_cast<size_t>(prompt), 1);
  sequence->request.max_tokens = max_tokens;
  sequence->tokens = sequence->request.prompt;
  sequence->stream = std::make_shared<TokenStream>(std::function<void()>());
  return sequence;
}

// What the step loop does with shares, less the model.
void run(const std::vector<Share>& shares) {
  for (const Share& share : shares) {
    const bool ready = share.rows == share.sequence->num_behind();
    share.sequence->state->advance(share.rows);
    if (ready) share.sequence->tokens.push_back(2);
    if (share.sequence->num_chosen() >= share.sequence->request.max_tokens)
      share.sequence->finish(End::kLength);
  }
}

std::vector<int64_t> rows_of(const std::vector<Share>& shares) {
  std::vector<int64_t> rows;
  for (const Share& share : shares) rows.push_back(share.rows);
  return rows;
}

TEST(Scheduler, ChunksShareABudgetAndDecodesAlwaysRun) {
  auto store = store_of(100, 8);
  Scheduler scheduler(*store, 64);
  std::vector<std::unique_ptr<Sequence>> preempted;
  scheduler.start(sequence_of(50, 10));
  scheduler.start(sequence_of(100, 10));
  scheduler.start(sequence_of(10, 10));
  auto shares = scheduler.plan(preempted);
  EXPECT_EQ(rows_of(shares), (std::vector<int64_t>{50, 14}));
  run(shares);
  shares = scheduler.plan(preempted);
  EXPECT_EQ(rows_of(shares), (std::vector<int64_t>{1, 64})) << "the first decodes";
  run(shares);
  shares = scheduler.plan(preempted);
  EXPECT_EQ(rows_of(shares), (std::vector<int64_t>{1, 22, 10}));
  EXPECT_TRUE(preempted.empty());
}

TEST(Scheduler, TheLastToArriveIsPreemptedAndTheFirstNever) {
  auto store = store_of(4, 8);
  Scheduler scheduler(*store, 1000);
  std::vector<std::unique_ptr<Sequence>> preempted;
  scheduler.start(sequence_of(128, 200));
  scheduler.start(sequence_of(128, 200));
  scheduler.start(sequence_of(120, 200));
  for (int step = 0; step < 9; ++step) run(scheduler.plan(preempted));
  EXPECT_EQ(scheduler.running().size(), 2U)
      << "the two of 128 need a second block each, of four in all";
  ASSERT_EQ(preempted.size(), 1U);
  EXPECT_EQ(preempted[0]->request.prompt.size(), 120U);
  EXPECT_FALSE(preempted[0]->state);
  EXPECT_GT(preempted[0]->num_chosen(), 0) << "its tokens are kept";
  EXPECT_EQ(scheduler.integrity_problem(), "");
}

TEST(Scheduler, StartsOnlyWhatHasRoom) {
  auto store = store_of(3, 2);
  Scheduler scheduler(*store, 1000);
  EXPECT_TRUE(scheduler.can_start(*sequence_of(3 * 128, 1)));
  EXPECT_FALSE(scheduler.can_start(*sequence_of(3 * 128 + 1, 1)));
  scheduler.start(sequence_of(10, 5));
  EXPECT_TRUE(scheduler.can_start(*sequence_of(256, 1))) << "two blocks, and one more for who runs";
  std::vector<std::unique_ptr<Sequence>> preempted;
  run(scheduler.plan(preempted));
  EXPECT_FALSE(scheduler.can_start(*sequence_of(256, 1)));
  scheduler.start(sequence_of(10, 5));
  EXPECT_FALSE(scheduler.can_start(*sequence_of(1, 1))) << "no slot";
}

// Thousands of steps of arrivals, cancellations and preemptions: every sequence ends, and the books
// balance after each step.
TEST(Scheduler, RandomTrafficEndsAndLosesNothing) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto store = store_of(12, 5);
  Scheduler scheduler(*store, 100);
  std::deque<std::unique_ptr<Sequence>> waiting;
  int64_t num_submitted = 0;
  int64_t num_preemptions = 0;
  const auto is_done = [&] {
    return num_submitted == 400 && waiting.empty() && scheduler.running().empty();
  };
  for (int step = 0; step < 400'000 && !is_done(); ++step) {
    if (num_submitted < 400 && random() % 8 == 0) {
      waiting.push_back(sequence_of(1 + random() % 700, static_cast<int32_t>(1 + random() % 300)));
      ++num_submitted;
    }
    for (const auto& sequence : scheduler.running()) {
      if (random() % 3000 == 0) sequence->finish(End::kCancelled);
    }
    scheduler.drop_finished();
    while (!waiting.empty() && scheduler.can_start(*waiting.front())) {
      scheduler.start(std::move(waiting.front()));
      waiting.pop_front();
    }
    std::vector<std::unique_ptr<Sequence>> preempted;
    const auto shares = scheduler.plan(preempted);
    ASSERT_TRUE(!shares.empty() || scheduler.running().empty()) << "somebody always gets on";
    ASSERT_EQ(scheduler.integrity_problem(), "");
    run(shares);
    scheduler.drop_finished();
    num_preemptions += static_cast<int64_t>(preempted.size());
    for (auto& sequence : preempted) waiting.push_front(std::move(sequence));
    ASSERT_EQ(scheduler.integrity_problem(), "");
  }
  EXPECT_TRUE(is_done()) << "all of them ended";
  EXPECT_GT(num_preemptions, 0);
  EXPECT_EQ(store->num_free_blocks(), 12);
  EXPECT_EQ(store->num_free_slots(), 5);
}

}  // namespace
}  // namespace stoker::engine
