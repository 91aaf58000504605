// The policy against made machines and made drafts: it is never slower than no drafts by more than
// three in a hundred, and where drafts pay, near the best fixed number of them.
#include "speculative/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace stoker::speculative {
namespace {

constexpr int32_t kDrafts = 5;

struct World {
  std::string name;
  std::function<double(int64_t rows)> step;
  std::function<double(int64_t sequences)> round;
  /// Of a draft, if those before it are accepted; by what the head says of it.
  std::function<double(double z)> accepted;
  double mean_z = 1;
  double key_cost = 0.01;  // of a row
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

// One sequence after another, `width` at a time, each of 200 tokens behind a prompt.
class Simulation {
 public:
  Simulation(const World& world, size_t width, uint32_t seed)
      : world_(world), random_(seed), proposals_(width), tokens_left_(width, 200) {}

  // Tokens a second of `steps` steps that always verify `length` drafts; 0: without drafts.
  double fixed(int32_t length, int64_t steps) {
    double seconds = 0;
    double tokens = 0;
    const auto width = static_cast<double>(proposals_.size());
    for (int64_t i = 0; i < steps; ++i) {
      if (length > 0) seconds += world_.round(std::llround(width));
      seconds += world_.step(std::llround(width * (1 + length)));
      for (size_t s = 0; s < proposals_.size(); ++s) tokens += 1 + accept(draw(), length);
    }
    return tokens / seconds;
  }

  // Tokens a second of the policy.
  double play(Policy& policy, double seconds_to_play) {
    double seconds = 0;
    double tokens = 0;
    while (seconds < seconds_to_play) {
      const Played step = step_of(policy);
      seconds += step.seconds;
      tokens += step.tokens;
    }
    return tokens / seconds;
  }

 private:
  struct Played {
    double seconds = 0;
    double tokens = 0;
  };

  std::vector<float> draw() {
    std::normal_distribution<double> z(world_.mean_z, 2);
    std::vector<float> out(kDrafts);
    for (float& one : out) one = static_cast<float>(z(random_));
    return out;
  }
  int32_t accept(const std::vector<float>& confidence, int32_t length) {
    std::uniform_real_distribution<double> uniform(0, 1);
    int32_t accepted = 0;
    while (accepted < length &&
           uniform(random_) < world_.accepted(confidence[static_cast<size_t>(accepted)]))
      ++accepted;
    return accepted;
  }
  double noisy(double seconds) {
    return seconds * std::lognormal_distribution<double>(0, 0.05)(random_);
  }

  Played step_of(Policy& policy) {
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < proposals_.size(); ++i) {
      if (tokens_left_[i] > 1) {
        candidates.push_back({&proposals_[i], Kind::kGreedy, std::min(kDrafts, tokens_left_[i] - 1),
                              tokens_left_[i] == 200 || proposals_[i].keeps_keys});
      } else {
        proposals_[i] = {};
      }
    }
    const auto width = static_cast<int64_t>(proposals_.size());
    const double round =
        policy.propose(candidates, {width, width, 0}, [&](std::span<const size_t> numbers) {
          for (const size_t number : numbers) {
            candidates[number].proposal->confidence = draw();
            candidates[number].proposal->tokens.assign(kDrafts, 0);
          }
          return noisy(world_.round(static_cast<int64_t>(numbers.size())));
        });
    int64_t rows = width;
    double keys = 0;
    for (const Proposal& proposal : proposals_) {
      rows += proposal.length;
      if (proposal.keeps_keys) keys += world_.key_cost / static_cast<double>(width);
    }
    const double seconds = noisy(world_.step(rows) * (1 + keys));
    double tokens = 0;
    for (const Candidate& candidate : candidates) {
      const int32_t accepted = accept(candidate.proposal->confidence, candidate.proposal->length);
      policy.observe_verified(candidate, accepted);
      const auto i = static_cast<size_t>(candidate.proposal - proposals_.data());
      tokens_left_[i] -= accepted;
      tokens += accepted;
    }
    for (int32_t& left : tokens_left_) {
      tokens += 1;
      if (--left <= 0) left = 200;
    }
    policy.observe_step({width, rows, std::llround(tokens), round, seconds});
    return {round + seconds, tokens};
  }

  const World& world_;
  std::mt19937 random_;
  std::vector<Proposal> proposals_;
  std::vector<int32_t> tokens_left_;
};

std::vector<World> worlds() {
  const auto honest = [](double z) { return logistic(z); };
  const auto never = [](double) { return 0.0; };
  const auto often = [](double z) { return logistic(z + 2); };
  const auto cheap_rows = [](int64_t rows) { return 1 + 0.05 * static_cast<double>(rows); };
  const auto dear_rows = [](int64_t rows) { return 0.4 + 0.6 * static_cast<double>(rows); };
  const auto stairs = [](int64_t rows) { return std::ceil(static_cast<double>(rows) / 8.0); };
  const auto small_round = [](int64_t n) { return 0.1 + 0.02 * static_cast<double>(n); };
  const auto large_round = [](int64_t n) { return 0.8 + 0.6 * static_cast<double>(n); };
  return {{"cheap rows", cheap_rows, small_round, honest},
          {"cheap rows, always right", cheap_rows, small_round, often, 3},
          {"cheap rows, never right", cheap_rows, small_round, never},
          {"cheap rows, dear rounds", cheap_rows, large_round, honest},
          {"dear rows", dear_rows, small_round, honest},
          {"dear rows, dear rounds", dear_rows, large_round, honest},
          {"dear rows and rounds, never right", dear_rows, large_round, never, 3},
          {"stairs", stairs, small_round, honest},
          {"dear keys, never right", cheap_rows, large_round, never, 0, 0.03}};
}

Policy new_policy() {
  return Policy({.num_drafts = kDrafts, .max_rows = 256, .max_sequences = 64, .window = 128});
}

double best_fixed(const World& world, size_t width, double plain) {
  double best = plain;
  for (int32_t length = 1; length <= kDrafts; ++length)
    best = std::max(best, Simulation(world, width, 2).fixed(length, 4000));
  return best;
}

double seconds_of(const World& world, size_t width, double steps) {
  return steps * world.step(static_cast<int64_t>(width));
}

TEST(Policy, IsNeverMuchSlowerAndNearTheBestWhereDraftsPay) {
  for (const World& world : worlds()) {
    for (const size_t width : {size_t{1}, size_t{4}, size_t{16}}) {
      SCOPED_TRACE(world.name + ", " + std::to_string(width) + " sequences");
      const double plain = Simulation(world, width, 1).fixed(0, 10);
      Policy policy = new_policy();
      Simulation simulation(world, width, 3);
      // From the start, when nothing is known, and once costs were learned.
      EXPECT_GE(simulation.play(policy, seconds_of(world, width, 4000)), 0.97 * plain);
      EXPECT_GE(simulation.play(policy, seconds_of(world, width, 4000)),
                0.95 * best_fixed(world, width, plain));
    }
  }
}

// What was measured while something else ran.
TEST(Policy, GetsOverWrongMeasurements) {
  for (const World& world : worlds()) {
    for (const double off : {0.4, 2.5}) {
      SCOPED_TRACE(world.name + ", rows beyond the first seen to take times " +
                   std::to_string(off));
      const double plain = Simulation(world, 1, 1).fixed(0, 10);
      Policy policy = new_policy();
      policy.costs().observe_step(1, world.step(1));
      for (const int64_t rows : {2, 4, 6, 12, 24, 48, 96})
        policy.costs().observe_step(rows, off * world.step(rows));
      Simulation simulation(world, 1, 3);
      EXPECT_GE(simulation.play(policy, seconds_of(world, 1, 4000)), 0.97 * plain);
    }
  }
}

TEST(Policy, FollowsWhatChanges) {
  bool is_good = false;
  World world = worlds()[0];
  world.accepted = [&is_good](double z) { return is_good ? logistic(z + 1) : 0.02 * logistic(z); };
  Policy policy = new_policy();
  Simulation simulation(world, 1, 3);
  const double plain = Simulation(world, 1, 1).fixed(0, 10);
  for (int i = 0; i < 3; ++i) {
    is_good = false;
    simulation.play(policy, seconds_of(world, 1, 600));
    EXPECT_GE(simulation.play(policy, seconds_of(world, 1, 4000)), 0.97 * plain);
    EXPECT_FALSE(policy.governor().is_on());
    is_good = true;
    simulation.play(policy, seconds_of(world, 1, 2000));
    EXPECT_GE(simulation.play(policy, seconds_of(world, 1, 2000)),
              0.9 * best_fixed(world, 1, plain));
    EXPECT_TRUE(policy.governor().is_on());
  }
  const auto& losses = policy.governor().num_losses();
  EXPECT_GE(losses[0] + losses[1], 2) << "each time, as expected or as seen";
}

TEST(Policy, WithoutAdaptationEverythingIsVerified) {
  World world = worlds()[6];  // never right
  Policy policy({.num_drafts = kDrafts,
                 .max_rows = 256,
                 .max_sequences = 64,
                 .window = 128,
                 .is_adaptive = false});
  std::vector<Proposal> proposals(3);
  std::vector<Candidate> candidates = {{&proposals[0], Kind::kGreedy, kDrafts, true},
                                       {&proposals[1], Kind::kHot, 2, false},
                                       {&proposals[2], Kind::kWarm, kDrafts, true}};
  for (int i = 0; i < 100; ++i) {
    policy.propose(candidates, {3, 3, 0}, [&](std::span<const size_t> numbers) {
      EXPECT_EQ(numbers.size(), 3U);
      for (const size_t number : numbers) {
        proposals[number].tokens.assign(kDrafts, 0);
        proposals[number].confidence.assign(kDrafts, -5);
      }
      return 1.0;
    });
    EXPECT_EQ(proposals[0].length, kDrafts);
    EXPECT_EQ(proposals[1].length, 2);
    for (const Candidate& candidate : candidates) {
      EXPECT_TRUE(candidate.proposal->keeps_keys);
      policy.observe_verified(candidate, 0);
    }
    policy.observe_step({3, 15, 3, 1.0, 10.0});
  }
}

TEST(Governor, SwitchesOffWhatIsMeasuredToLose) {
  CostModel costs(64, 4);
  costs.observe_step(1, 1);
  costs.observe_step(6, 1.1);
  costs.observe_round(1, 0.1);
  Governor governor(kDrafts, 64);
  const std::vector<float> sure(kDrafts, 0.95F);
  const PlainStep step{1, 1, 0};
  int64_t waited = 0;
  std::vector<int64_t> waits;
  for (int i = 0; i < 4000; ++i) {
    const Verdict verdict = governor.decide(step, 1, costs);
    if (verdict == Verdict::kProbe) governor.note_probe();
    if (verdict == Verdict::kDraft || verdict == Verdict::kProbe) {
      if (waited > 100) waits.push_back(waited);
      waited = 0;
      governor.note_round(sure);
      governor.note_drafted_step(1, 2, 3, costs);  // twice as many tokens in three times the time
    } else {
      ++waited;
      governor.note_plain_step(1);
    }
  }
  EXPECT_GE(governor.num_losses()[1], 3);
  ASSERT_GE(waits.size(), 3U);
  EXPECT_GE(waits[1], 2 * waits[0] - 8) << "longer each time";
  EXPECT_GE(waits[2], 2 * waits[1] - 8);
}

}  // namespace
}  // namespace stoker::speculative
