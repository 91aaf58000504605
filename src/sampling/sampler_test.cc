// What a sequence's tokens mean to its choices: counts, bad words, tokens at the least, errors.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "sampling/plain.h"

namespace stoker::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kVocab = 50;

Params drawn_params(std::mt19937_64& random) {
  const auto id = [&random] { return static_cast<int32_t>(random() % kVocab); };
  Params params;
  params.temperature = random() % 3 == 0 ? 0 : 1;
  params.top_p = random() % 2 == 0 ? 1 : 0.9;
  if (random() % 2 == 0) params.penalties.repetition = 1.4F;
  if (random() % 2 == 0) params.penalties.presence = 0.5F;
  if (random() % 2 == 0) params.penalties.frequency = 0.3F;
  if (random() % 3 == 0) params.bias = {{3, 4}, {7, -kInf}, {20, -3}};
  if (random() % 5 == 0) params.allowed = {1, 3, 4, 9, 30, 31, 32};
  if (random() % 2 == 0) params.bad_words = {{id(), id()}, {id()}, {1, 3, 4}, {3, 3}};
  if (random() % 2 == 0) {
    params.min_tokens = 10;
    params.ends = {0, 9};
  }
  if (random() % 2 == 0)
    params.forced = {static_cast<int64_t>(random() % 12), id(), {id(), id(), id()}};
  return params;
}

// A whole answer, token by token: each is what the plain twin chooses from the tokens before it,
// and a drafted run sees itself.
TEST(Sampler, EachTokenFollowsFromThoseBeforeIt) {
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  Scratch scratch(kernels::usable_levels().back());
  for (int round = 0; round < 200; ++round) {
    const Params params = drawn_params(random);
    std::vector<int32_t> prompt(random() % 20 + 1);
    for (int32_t& id : prompt) id = static_cast<int32_t>(random() % kVocab);
    Sampler sampler(params, random(), prompt);
    std::vector<int32_t> answer;
    std::vector<int32_t> run;  // the last of the answer, not accepted yet
    for (int i = 0; i < 30; ++i) {
      std::vector<float> logits(kVocab);
      for (float& x : logits) x = normal(random);
      const auto token = sampler.draw(logits, run, scratch);
      ASSERT_TRUE(token) << token.error().message;
      const auto x = plain::shaped(logits, params, prompt, answer);
      ASSERT_EQ(*token, plain::sample(x, {sampler.seed(), prompt.size() + answer.size()}, params))
          << "round " << round << ", token " << i;
      answer.push_back(*token);
      run.push_back(*token);
      if (random() % 2 == 0) {
        for (const int32_t id : run) sampler.accept(id);
        run.clear();
      }
    }
  }
}

Result<int32_t> draw(const std::vector<float>& logits, const Params& params) {
  Scratch scratch(kernels::usable_levels().back());
  return Sampler(params, 1, {}).draw(logits, {}, scratch);
}

// A mask is the same as banning what it leaves out.
TEST(Sampler, AMaskBansTheRest) {
  std::mt19937_64 random(9);
  std::normal_distribution<float> normal;
  Scratch scratch(kernels::usable_levels().back());
  constexpr int32_t kIds = 150;  // two words and a part of a third
  for (int round = 0; round < 300; ++round) {
    Params params;
    params.temperature = round % 3 == 0 ? 0 : 1;
    if (round % 2 == 0) params.penalties.presence = 1;
    std::vector<uint64_t> mask(3);
    const uint64_t density = random() % 8;
    Params banning = params;
    for (int32_t id = 0; id < kIds; ++id) {
      if (random() % 8 < density || id == round % kIds) {
        mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      } else {
        banning.bias.push_back({id, -kInf});
      }
    }
    const std::vector<int32_t> prompt = {1, 2, 3};
    Sampler masked(params, 5, prompt);
    Sampler banned(banning, 5, prompt);
    masked.accept(7);
    banned.accept(7);
    std::vector<float> logits(kIds);
    for (float& x : logits) x = normal(random);
    const auto token = masked.draw(logits, {}, scratch, mask);
    ASSERT_TRUE(token) << token.error().message;
    EXPECT_EQ(*token, *banned.draw(logits, {}, scratch)) << round;
  }
  Sampler sampler({}, 5, {});
  const std::vector<uint64_t> none(3);
  EXPECT_FALSE(sampler.draw(std::vector<float>(kIds), {}, scratch, none));
}

TEST(Sampler, LogitsThatAreNotFiniteAreAnErrorAndNothingAborts) {
  const float nan = std::nanf("");
  const Params hostile[] = {{0, 0, 1, 0}, {1, 0, 1, 0}, {1e-9, 0, 1, 0},      {1, 1, 1, 0},
                            {1, 0, 0, 0}, {1, 0, 1, 1}, {1e-300, 3, 0.5, 0.5}};
  for (const Params& params : hostile) {
    for (const auto& logits : std::vector<std::vector<float>>{
             {nan, nan}, {0, nan}, {-kInf, -kInf}, {0, kInf}, {-kInf, 3}}) {
      const auto token = draw(logits, params);
      ASSERT_FALSE(token);
      EXPECT_EQ(token.error().code, ErrorCode::kInternal);
    }
    EXPECT_EQ(*draw({-3e38F, 3e38F}, params), 1);
  }
  EXPECT_NE(draw({0, 1, nan}, {}).error().message.find("nan for token 2"), std::string::npos);
}

TEST(Sampler, BansThatLeaveNothingAreAnError) {
  Params params;
  params.allowed = {1};
  params.bad_words = {{1}};
  const auto token = draw({0, 1, 2}, params);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(token.error().message.find("allowed_token_ids"), std::string::npos);
}

// Whatever is banned, and only where nothing came that it does without.
TEST(Sampler, AForcedTokenComesAtItsPosition) {
  Params params;
  params.temperature = 0;
  params.bias = {{7, -kInf}};
  params.bad_words = {{4, 7}};
  params.forced = {2, 7, {7, 9}};
  std::vector<float> logits(kVocab);
  logits[4] = 1;
  Scratch scratch(kernels::usable_levels().front());
  const auto drawn = [&](const Sampler& sampler, std::vector<int32_t> run) {
    const auto token = sampler.draw(logits, run, scratch);
    return token ? *token : -1;
  };
  Sampler sampler(params, 1, {});
  EXPECT_EQ(drawn(sampler, {}), 4);
  EXPECT_EQ(drawn(sampler, {4, 4}), 7);
  EXPECT_EQ(drawn(sampler, {4, 9}), 4) << "a drafted token does without it";
  sampler.accept(4);
  EXPECT_EQ(drawn(sampler, {}), 4);
  EXPECT_EQ(drawn(sampler, {4}), 7);
  EXPECT_EQ(drawn(sampler, {4, 7}), 4) << "once";
  sampler.accept(9);
  EXPECT_EQ(drawn(sampler, {}), 4) << "an accepted one does without it";
}

TEST(Sampler, PenaltiesThatOverflowTakeTheLargest) {
  Params params;
  params.penalties.repetition = 1e-6F;
  Scratch scratch(kernels::usable_levels().back());
  const std::vector<int32_t> prompt = {1, 2};
  const Sampler sampler(params, 1, prompt);
  EXPECT_EQ(*sampler.draw(std::vector<float>{0, 1e37F, 3e37F}, {}, scratch), 1)
      << "both are infinite: the lower id";
}

}  // namespace
}  // namespace stoker::sampling
