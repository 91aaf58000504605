// The scheduler without a model: sequences are advanced by hand.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/kv.h"

namespace stoker::engine {
namespace {

using testing::store_of;

KvShape tiny_shape() {
  return {.num_rings = 1,
          .num_early_rings = 1,
          .max_drafts = 5,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 4,
          .history = 0,
          .sources = {{0, 1}}};
}

class SchedulerTest : public ::testing::Test {
 protected:
  void make(int64_t num_blocks, int32_t num_slots) {
    scheduler_.reset();
    store_ = store_of(tiny_shape(), num_slots, 0, num_blocks);
    scheduler_ = std::make_unique<Scheduler>(
        *store_, SchedulerOptions{.prefix_cache = false, .replay = {}}, metrics_);
  }

  void make_with_images(int64_t num_blocks, int32_t num_slots) {
    scheduler_.reset();
    store_ = store_of(tiny_shape(), num_slots, 8, num_blocks);
    scheduler_ = std::make_unique<Scheduler>(
        *store_, SchedulerOptions{.prefix_cache = true, .replay = {}}, metrics_);
  }

  // Queued, with tokens of its own.
  Sequence* add(int64_t prompt, int32_t max_tokens, int32_t priority = 0,
                std::optional<Clock::time_point> deadline = std::nullopt) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < prompt; ++i)
      tokens.push_back(static_cast<int32_t>(1000 * num_added_ + i % 1000));
    return add_tokens(std::move(tokens), max_tokens, priority, deadline);
  }

  Sequence* add_tokens(std::vector<int32_t> tokens, int32_t max_tokens, int32_t priority = 0,
                       std::optional<Clock::time_point> deadline = std::nullopt) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.max_tokens = max_tokens;
    sequence->request.deadline = deadline;
    sequence->tokens = std::move(tokens);
    sequence->num_prompt = sequence->num_tokens();
    sequence->key = {priority, num_added_++};
    sequence->stream = std::make_shared<TokenStream>(nullptr, std::function<void()>());
    Sequence* added = sequence.get();
    scheduler_->enqueue(std::move(sequence));
    return added;
  }

  // What the stepper does with shares, less the model. The rows of each.
  std::vector<int64_t> step(int64_t max_prefill_rows) {
    std::vector<int64_t> rows;
    const std::span<Share> shares = scheduler_->plan(max_prefill_rows);
    scheduler_->plan_images();
    for (const Share& share : shares) {
      rows.push_back(share.rows);
      share.sequence->state->advance(share.rows);
    }
    scheduler_->commit();
    for (const Share& share : shares) {
      Sequence& sequence = *share.sequence;
      if (sequence.num_behind() == 0) sequence.tokens.push_back(2);
      if (sequence.num_chosen() >= sequence.request.max_tokens) sequence.finish(End::kLength);
    }
    scheduler_->drop_finished();
    EXPECT_EQ(scheduler_->integrity_problem(), "");
    return rows;
  }

  size_t num_running() const { return scheduler_->running().size(); }

  std::unique_ptr<KvStore> store_;
  Metrics metrics_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t num_added_ = 0;
};

using Rows = std::vector<int64_t>;

TEST_F(SchedulerTest, TellsWhatRunsAndWaits) {
  make(20, 1);
  add(300, 5);
  add(200, 7, 3);
  step(128);
  std::vector<std::string> lines;
  scheduler_->report([&lines](std::string_view line) { lines.emplace_back(line); });
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].rfind("event=scheduler running=1 waiting=1 preempted=0 free_slots=0", 0), 0U)
      << lines[0];
  EXPECT_EQ(lines[1].rfind("event=sequence state=running arrival=0 priority=0 age_ms=", 0), 0U)
      << lines[1];
  EXPECT_NE(lines[1].find(" prompt_tokens=300 chosen_tokens=0 max_tokens=5 state_tokens=128 "),
            std::string::npos)
      << lines[1];
  EXPECT_EQ(lines[2].rfind("event=sequence state=waiting arrival=1 priority=3 ", 0), 0U)
      << lines[2];
}

TEST_F(SchedulerTest, PrefillRowsAreSharedAndDecodesAlwaysRun) {
  make(100, 8);
  add(50, 10);
  add(100, 10);
  add(10, 10);
  EXPECT_EQ(step(64), (Rows{50, 14}));
  EXPECT_EQ(step(64), (Rows{1, 64})) << "the first decodes";
  EXPECT_EQ(step(64), (Rows{1, 22, 10}));
  EXPECT_EQ(metrics_.total_preemptions.get(), 0);
}

TEST_F(SchedulerTest, DraftsTakeWhatRoomThereIs) {
  make(3, 8);
  add(126, 100);
  add(125, 100);
  EXPECT_EQ(step(1000), (Rows{126, 125}));
  const std::span<Share> shares = scheduler_->plan(1000);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_TRUE(shares[0].is_decode && shares[1].is_decode);
  EXPECT_EQ(scheduler_->add_drafts(shares[0], 5), 5) << "into the last block";
  EXPECT_EQ(shares[0].rows, 6);
  EXPECT_EQ(scheduler_->add_drafts(shares[1], 5), 2) << "to the end of its own";
  EXPECT_EQ(shares[1].rows, 3);
  EXPECT_EQ(shares[1].num_drafts, 2);
  scheduler_->plan_images();
  for (const Share& share : shares) {
    share.sequence->state->advance(share.rows);
    share.sequence->state->roll_back(share.num_drafts);
  }
  scheduler_->commit();
  EXPECT_EQ(store_->num_free_blocks(), 1) << "what was rolled back is free";
  EXPECT_EQ(scheduler_->integrity_problem(), "");
  EXPECT_EQ(num_running(), 2U);
}

TEST_F(SchedulerTest, TheLastInTheOrderIsPreemptedAndTheFirstNever) {
  make(5, 8);
  const Sequence* first = add(128, 300);
  const Sequence* second = add(128, 300);
  int64_t num_steps = 0;
  while (metrics_.total_preemptions.get() == 0 && ++num_steps < 1000) step(1000);
  ASSERT_EQ(num_running(), 1U) << "each came to three blocks, of five in all";
  EXPECT_EQ(scheduler_->running()[0].get(), first);
  EXPECT_EQ(scheduler_->num_waiting(), 1);
  EXPECT_FALSE(second->state);
  EXPECT_GT(second->num_chosen(), 100) << "its tokens are kept";
}

TEST_F(SchedulerTest, StartsOnlyWhatHasRoom) {
  make(3, 2);
  add(3 * 128, 1);
  add(1, 1);
  step(1000);
  EXPECT_EQ(num_running() + static_cast<size_t>(scheduler_->num_waiting()), 1U)
      << "the first had all, and is done";
  step(1000);
  EXPECT_EQ(num_running(), 0U);
  add(10, 300);
  add(256, 1);
  step(1000);
  EXPECT_EQ(num_running(), 1U) << "two blocks beside one more for the first are not there";
  add(10, 1);
  step(1000);
  EXPECT_EQ(scheduler_->num_waiting(), 2) << "in the order of arrival";
}

TEST_F(SchedulerTest, PriorityComesBeforeArrivalAndIsPreemptedLater) {
  make(4, 3);
  const Sequence* low = add(128, 200, 5);
  step(1000);
  const Sequence* high = add(128, 200, -1);
  const Sequence* middle = add(100, 200, 0);
  step(1000);
  ASSERT_EQ(num_running(), 2U);
  EXPECT_EQ(scheduler_->running()[0].get(), high);
  for (int i = 0; i < 300 && metrics_.total_preemptions.get() == 0; ++i) step(1000);
  EXPECT_FALSE(low->state) << "it came first, and goes first";
  EXPECT_TRUE(high->state);
  EXPECT_FALSE(middle->has_started && !middle->state);
}

TEST_F(SchedulerTest, DeadlinesEndWhoRunsAndWhoWaits) {
  make(100, 1);
  const Clock::time_point soon = Clock::now() + std::chrono::hours(1);
  const auto running = add(10, 100, 0, soon)->stream;
  const auto waiting = add(10, 100, 0, soon)->stream;
  const auto patient = add(10, 100)->stream;
  step(1000);
  scheduler_->expire(soon - std::chrono::seconds(1));
  EXPECT_FALSE(running->take().end);
  scheduler_->expire(soon);
  for (const auto& stream : {running, waiting}) {
    const TokenProgress progress = stream->take();
    ASSERT_EQ(progress.end, End::kError);
    EXPECT_EQ(progress.error->code, ErrorCode::kDeadlineExceeded);
  }
  EXPECT_FALSE(patient->take().end);
}

// Blocks that are shared count once: sixteen that need ten blocks each run in a pool of 45, and
// what they share is run once.
TEST_F(SchedulerTest, WhatManyShareIsComputedOnce) {
  make_with_images(45, 16);
  std::vector<int32_t> common;
  for (int32_t i = 0; i < 9 * 128 + 50; ++i) common.push_back(i);
  for (int32_t i = 0; i < 16; ++i) {
    std::vector<int32_t> tokens = common;
    tokens.push_back(5000 + i);
    add_tokens(std::move(tokens), 5);
  }
  int64_t num_rows = 0;
  size_t most_running = 0;
  for (int i = 0; i < 200 && scheduler_->num_waiting() + static_cast<int64_t>(num_running()) > 0;
       ++i) {
    for (const int64_t rows : step(4096)) num_rows += rows;
    most_running = std::max(most_running, num_running());
  }
  EXPECT_EQ(scheduler_->num_waiting(), 0);
  EXPECT_LE(num_rows, (9 * 128 + 51) + 15 * 51 + 16 * 4);
  EXPECT_GE(most_running, 15U);
}

// Thousands of steps of arrivals, cancellations and preemptions: every sequence ends, and the books
// balance after each step.
TEST_F(SchedulerTest, RandomTrafficEndsAndLosesNothing) {
  for (const bool prefix_cache : {false, true}) {
    const uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    if (prefix_cache) {
      make_with_images(12, 5);
    } else {
      make(12, 5);
    }
    int64_t num_submitted = 0;
    const int64_t preempted_before = metrics_.total_preemptions.get();
    const auto is_done = [&] {
      return num_submitted == 400 && scheduler_->num_waiting() == 0 && num_running() == 0;
    };
    for (int i = 0; i < 400'000 && !is_done(); ++i) {
      if (num_submitted < 400 && random() % 8 == 0) {
        std::vector<int32_t> tokens(1 + random() % 700, static_cast<int32_t>(random() % 3));
        add_tokens(std::move(tokens), static_cast<int32_t>(1 + random() % 300),
                   static_cast<int32_t>(random() % 2));
        ++num_submitted;
      }
      if (num_running() > 0 && random() % 600 == 0) {
        scheduler_->end(scheduler_->running()[random() % num_running()]->key, End::kCancelled, {});
      }
      if (prefix_cache && random() % 5000 == 0) scheduler_->reset_cache();
      const auto rows = step(100);
      ASSERT_TRUE(!rows.empty() || (num_running() == 0 && scheduler_->num_waiting() == 0))
          << "somebody always gets on";
      if (HasFailure()) return;
    }
    EXPECT_TRUE(is_done()) << "all of them ended";
    EXPECT_GT(metrics_.total_preemptions.get(), preempted_before);
    scheduler_->reset_cache();
    EXPECT_EQ(store_->num_free_blocks(), 12);
    EXPECT_EQ(store_->num_free_slots(), 5);
  }
}

}  // namespace
}  // namespace stoker::engine
