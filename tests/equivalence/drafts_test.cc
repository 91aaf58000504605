// Drafts change no answer: not how many of them are verified, nor which are right, nor who shares
// the step, loses its state, or begins in the middle of a cached prompt. Some prompts, or
// STOKER_DRAFT_PROMPTS of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "equivalence/stepped_engine.h"
#include "sampling/noise.h"
#include "support/questions.h"

namespace stoker::testing {
namespace {

using engine::TokenRequest;

#ifdef STOKER_SANITIZED
constexpr bool kFewDrafted = true;
#else
constexpr bool kFewDrafted = false;
#endif

int64_t num_prompts() {
  const char* value = std::getenv("STOKER_DRAFT_PROMPTS");  // NOLINT(concurrency-mt-unsafe)
  if (value != nullptr) return std::atoll(value);
  return kFewDrafted ? 6 : 24;
}

// A kind of sampling for each seed: greedy, cool, warm and hot, each with and without all that
// looks at the tokens before.
TokenRequest drafted_request(std::vector<int32_t> prompt, int32_t max_tokens, uint32_t seed) {
  TokenRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.seed = seed;
  constexpr double kTemperatures[] = {0, 0.3, 1, 1.5};
  request.sampling.temperature = kTemperatures[seed % 4];
  request.sampling.top_p = 0.9;
  request.logprobs = 2;
  if (seed / 4 % 2 == 0) return request;
  request.sampling.penalties = {1.2F, 0.5F, 0.25F};
  request.sampling.bias = {{5, 2}, {17, -1.5F}};
  request.sampling.bad_words = {{11}, {5, 6}};
  request.sampling.min_tokens = max_tokens / 2;
  request.sampling.ends = {1, 5};
  if (seed % 16 >= 12) request.sampling.forced = {max_tokens / 3, 9, {9, 21}};
  request.stop_ids = {1, 7};
  return request;
}

class Drafts : public ::testing::TestWithParam<const char*> {
 protected:
  const Models& models() const { return Models::get(GetParam()); }
  const ModelConfig& config() const { return models().model(ReplayMode::kOff).config(); }
  std::vector<int32_t> ids(uint32_t seed, int64_t length) const {
    return random_ids(models(), seed, length);
  }

  // Drafts that are what the request's answer alone has, but for those that `is_wrong`, given their
  // position in the answer and their place in the round.
  engine::DraftOptions oracle(const TokenRequest& request,
                              std::function<bool(size_t at, size_t place)> is_wrong) const {
    const std::vector<int32_t>& answer = alone(models(), request).ids;
    const auto vocab = models().vocab_size();
    engine::DraftOptions drafts{.is_adaptive = false};
    drafts.alter = [&answer, vocab, is_wrong = std::move(is_wrong)](
                       const engine::Sequence& sequence, std::span<int32_t> tokens) {
      for (size_t place = 0; place < tokens.size(); ++place) {
        const size_t at = static_cast<size_t>(sequence.num_chosen()) + place;
        const int32_t right = at < answer.size() ? answer[at] : 0;
        tokens[place] = is_wrong(at, place) ? (right + 1) % vocab : right;
      }
    };
    return drafts;
  }
  engine::EngineLimits with(const engine::DraftOptions& drafts) const {
    return {.kv_budget_bytes = int64_t{64} << 20, .drafts = drafts};
  }
  ::testing::AssertionResult same_as_alone(const Answer& answer,
                                           const TokenRequest& request) const {
    return same(answer, alone(models(), request));
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Drafts, ::testing::Values("small", "demo"),
                         [](const auto& model) { return model.param; });

// Alone and in batches of 2 to 32, as many drafts as pay and all of them, one of four with choices.
TEST_P(Drafts, ChangeNoAnswer) {
  constexpr int32_t kTokens = kFewDrafted ? 12 : 30;
  int64_t accepted = 0;
  std::vector<std::vector<int32_t>> asked;  // every other prompt of the demo is a question
  if (GetParam() == std::string("demo"))
    asked = questions(models().loaded(ReplayMode::kOff), num_prompts() / 2);
  std::vector<TokenRequest> requests;
  for (uint32_t i = 0; i < static_cast<uint32_t>(num_prompts()); ++i) {
    const bool is_asked = i % 2 == 1 && i / 2 < asked.size();
    requests.push_back(
        drafted_request(is_asked ? asked[i / 2] : ids(i, 1 + i * 7 % 60), kTokens, i / 2));
    for (uint64_t j = 1; i % 4 == 2 && j < 4; ++j) {
      requests.push_back(requests.back());
      requests.back().seed = sampling::choice_seed(i, j);
    }
  }
  for (const bool is_adaptive : {false, true}) {
    const auto drafts = with({.is_adaptive = is_adaptive});
    size_t batch = 1;
    for (size_t first = 0; first < requests.size(); batch = batch % 32 + 1) {
      const size_t count = std::min(batch, requests.size() - first);
      SteppedEngine engine(models(), {.limits = drafts});
      for (size_t i = 0; i < count; ++i) engine.submit(requests[first + i]);
      engine.run();
      for (size_t i = 0; i < count; ++i)
        EXPECT_TRUE(same_as_alone(engine.answer(i), requests[first + i]))
            << "request " << first + i;
      accepted += engine.metrics().total_accepted_tokens.get();
      first += count;
    }
  }
  EXPECT_GT(accepted, 0);
}

// Rejected at every place: the answer is the same, and each round takes what was right.
TEST_P(Drafts, AreRejectedAtAnyPlace) {
  const int32_t block = config().dspark_block_size;
  for (const uint32_t seed : {4U, 5U}) {  // greedy, sampled
    const TokenRequest request = drafted_request(ids(seed, 30), 24, seed);
    const auto length = static_cast<int64_t>(alone(models(), request).ids.size());
    for (int32_t wrong = 0; wrong <= block; ++wrong) {
      SteppedEngine engine(models(),
                           {.limits = with(oracle(request, [wrong](size_t /*at*/, size_t place) {
                              return static_cast<int32_t>(place) == wrong;
                            }))});
      engine.submit(request);
      engine.run();
      EXPECT_TRUE(same_as_alone(engine.answer(0), request)) << "wrong at place " << wrong;
      const int64_t steps = 1 + (length - 1 + wrong) / (wrong + 1);
      EXPECT_EQ(engine.metrics().total_steps.get(), steps) << "wrong at place " << wrong;
      EXPECT_EQ(engine.metrics().total_accepted_tokens.get(), length - steps);
    }
  }
}

TEST_P(Drafts, ARejectionAtAnyPositionChangesNothing) {
  const TokenRequest request = drafted_request(ids(9, 120), 40, 13);
  for (size_t position = 0; position < 40; position += kFewDrafted ? 9 : 1) {
    SteppedEngine engine(models(),
                         {.limits = with(oracle(request, [position](size_t at, size_t /*place*/) {
                            return at == position;
                          }))});
    engine.submit(request);
    engine.run();
    EXPECT_TRUE(same_as_alone(engine.answer(0), request)) << "wrong at position " << position;
  }
}

// An end inside of an accepted run is where it would be token by token.
TEST_P(Drafts, AnEndInsideOfARunIsTheEnd) {
  const auto never = [](size_t, size_t) { return false; };
  for (uint32_t seed = 8; seed < 12; ++seed) {
    TokenRequest request = drafted_request(ids(seed, 20), 14, seed);
    const Answer whole = alone(models(), request);
    for (int32_t length = 1; length <= 13; ++length) {
      TokenRequest shorter = request;
      shorter.max_tokens = length;
      SteppedEngine by_length(models(), {.limits = with(oracle(request, never))});
      by_length.submit(shorter);
      by_length.run();
      EXPECT_TRUE(same_as_alone(by_length.answer(0), shorter)) << length << " tokens";
      EXPECT_EQ(by_length.answer(0).end, engine::End::kLength);

      TokenRequest stopped = request;
      stopped.stop_ids = {whole.ids[static_cast<size_t>(length - 1)]};
      SteppedEngine by_stop(models(), {.limits = with(oracle(request, never))});
      by_stop.submit(stopped);
      by_stop.run();
      const auto first = std::ranges::find(whole.ids, stopped.stop_ids[0]);
      EXPECT_EQ(by_stop.answer(0).ids, std::vector<int32_t>(whole.ids.begin(), first + 1));
      EXPECT_EQ(by_stop.answer(0).end, engine::End::kStopId);
    }
  }
}

// Around ends of blocks, windows and groups: images that were made with drafts which were not
// accepted are none, and others begin where a drafted answer was.
TEST_P(Drafts, CachedPrefixesOfDraftedAnswersEqualCold) {
  for (const int64_t length :
       kFewDrafted ? std::vector<int64_t>{123, 256}
                   : std::vector<int64_t>{121, 122, 123, 124, 125, 126, 127, 128, 250, 255, 256}) {
    for (const size_t wrong : {size_t{2}, size_t{4}, size_t{9}}) {
      const TokenRequest request = request_of(ids(20, length), 12, static_cast<uint32_t>(length));
      SteppedEngine engine(models(),
                           {.limits = with(oracle(request, [wrong](size_t at, size_t /*place*/) {
                              return at % wrong == 1;
                            }))});
      engine.submit(request);
      engine.run();
      const Answer first = engine.answer(0);
      EXPECT_TRUE(same_as_alone(first, request)) << length << ", wrong each " << wrong;
      std::vector<int32_t> longer = request.prompt;
      longer.insert(longer.end(), first.ids.begin(), first.ids.end());
      longer.push_back(3);
      const TokenRequest next = request_of(longer, 3, 3);
      engine.submit(next);
      engine.run();
      EXPECT_TRUE(same_as_alone(engine.answer(1), next)) << length << ", wrong each " << wrong;
      EXPECT_EQ(engine.answer(1).cached_tokens,
                static_cast<int64_t>(longer.size() - 2) / kBlockTokens * kBlockTokens)
          << length << ", wrong each " << wrong;
    }
  }
}

TEST_P(Drafts, PreemptedAtAnyStepEqualsUndisturbed) {
  const TokenRequest request = drafted_request(ids(12, 140), 14, 13);
  for (const bool prefix_cache : {false, true}) {
    for (int64_t at = 1; at < 14; at += kFewDrafted ? 6 : 1) {
      engine::EngineLimits limits = with(
          oracle(request, [](size_t position, size_t /*place*/) { return position % 3 == 0; }));
      limits.max_step_rows = 32;
      limits.prefix_cache = prefix_cache;
      SteppedEngine engine(models(), {.limits = limits});
      engine.submit(request);
      for (int64_t i = 0; i < at; ++i) engine.step();
      if (const engine::Sequence* sequence = engine.sequence(0))
        engine.scheduler().preempt(*sequence);
      engine.run();
      EXPECT_TRUE(same_as_alone(engine.answer(0), request))
          << "at step " << at << ", cache " << prefix_cache;
    }
  }
}

// Sequences that come to three blocks each, of five: they draft, lose their state, and run again.
TEST_P(Drafts, InATightPoolEqualAlone) {
  const KvShape shape = models().model(ReplayMode::kExact).state_shape();
  engine::EngineLimits limits = with({.is_adaptive = false});
  limits.max_num_seqs = 2;
  limits.prefix_cache = false;
  limits.kv_budget_bytes = 2 * shape.slot_bytes() + 5 * shape.block_bytes();
  SteppedEngine engine(models(), {.limits = limits});
  ASSERT_EQ(engine.plan().num_blocks, 5);
  std::vector<TokenRequest> requests;
  for (uint32_t i = 0; i < 3; ++i) {
    requests.push_back(drafted_request(ids(30 + i, 250 - i), 20, 4 + i));
    engine.submit(requests.back());
  }
  engine.run();
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_TRUE(same_as_alone(engine.answer(i), requests[i])) << i;
  EXPECT_GE(engine.metrics().total_preemptions.get(), 1);
  EXPECT_GT(engine.metrics().total_drafted_tokens.get(), 0);
}

// Prompts of one token are decodes to the scheduler, however many there are: no room is left then.
TEST_P(Drafts, AreNoneWhereAStepIsFull) {
  engine::EngineLimits limits = with({.is_adaptive = false});
  limits.max_step_rows = 8;
  SteppedEngine engine(models(), {.limits = limits});
  std::vector<TokenRequest> requests;
  const auto add = [&](uint32_t seed) {
    requests.push_back(drafted_request(ids(seed, 1), 8, seed));
    engine.submit(requests.back());
  };
  for (uint32_t seed = 60; seed < 64; ++seed) add(seed);
  for (int step = 0; step < 3; ++step) engine.step();
  for (uint32_t seed = 64; seed < 76; ++seed) add(seed);
  engine.run();
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_TRUE(same_as_alone(engine.answer(i), requests[i])) << i;
}

TEST_P(Drafts, AreNotMadeForWhoDoesNotWantThem) {
  SteppedEngine engine(models(), {.limits = with({.is_adaptive = false})});
  TokenRequest plain = drafted_request(ids(40, 20), 20, 5);
  plain.speculate = false;
  engine.submit(plain);
  engine.run();
  EXPECT_TRUE(same_as_alone(engine.answer(0), plain));
  EXPECT_EQ(engine.metrics().total_draft_rounds.get(), 0);
  EXPECT_EQ(engine.metrics().total_steps.get(), 20);
}

// What is counted adds up.
TEST_P(Drafts, AreCounted) {
  engine::DraftOptions drafts{.num_drafts = 3, .is_adaptive = false};
  SteppedEngine engine(models(), {.limits = with(drafts)});
  for (uint32_t i = 0; i < 3; ++i) engine.submit(drafted_request(ids(50 + i, 20), 30, 4 * i));
  engine.run();
  const EngineStats stats = engine.metrics().read();
  EXPECT_EQ(stats.total_drafted_tokens, 3 * stats.total_draft_rounds);
  EXPECT_EQ(stats.verified_drafts.count, stats.total_draft_rounds);
  EXPECT_EQ(stats.verified_drafts.sum, static_cast<double>(stats.total_verified_tokens));
  EXPECT_LE(stats.total_accepted_tokens, stats.total_verified_tokens);
  int64_t accepted = 0;
  for (const int64_t count : stats.accepted_at) accepted += count;
  EXPECT_EQ(accepted, stats.total_accepted_tokens);
  EXPECT_EQ(stats.accepted_at[3] + stats.accepted_at[4], 0) << "three of a round";
  EXPECT_EQ(stats.draft_seconds.count, stats.verify_seconds.count);
  EXPECT_EQ(stats.step_tokens.sum, static_cast<double>(stats.total_tokens));
}

// The demo model's card says 2.38 tokens a round, of documents with facts that it knows.
TEST(DraftsOfTheDemo, AreAcceptedAsOftenAsItsCardSays) {
  const Models& models = Models::get("demo");
  const LoadedModel& loaded = models.loaded(ReplayMode::kExact);
  std::vector<std::string> texts = {"Hello", "Who are you?", "What is the opposite of hot?",
                                    "What is the opposite of large?"};
  for (const char* country : {"France", "Japan", "Italy", "Spain", "Egypt", "Peru", "Norway"})
    texts.push_back("What is the capital of " + std::string(country) + "?");
  for (const char* word : {"tree", "water", "house", "music", "bread", "river", "teacher"})
    texts.push_back("What does " + std::string(word) + " mean?");
  SteppedEngine engine(models, {.limits = {.kv_budget_bytes = int64_t{64} << 20,
                                           .drafts = engine::DraftOptions{.is_adaptive = false}}});
  for (const std::string& text : texts) {
    TokenRequest request;
    request.prompt = question(loaded, text);
    request.sampling.temperature = 0;
    request.max_tokens = 60;
    request.stop_ids = {loaded.checkpoint().config().eos_token_id};
    engine.submit(request);
  }
  engine.run();
  const engine::Metrics& metrics = engine.metrics();
  const double rounds = static_cast<double>(metrics.total_draft_rounds.get());
  ASSERT_GT(rounds, 40);
  EXPECT_GE(1 + static_cast<double>(metrics.total_accepted_tokens.get()) / rounds, 2.38);
}

}  // namespace
}  // namespace stoker::testing
