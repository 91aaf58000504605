// What must not change one bit of an answer: chunks, neighbours, threads, prefixes, preemptions,
// replay, arrival and priority. Each is one test, on the made checkpoint and on the demo model,
// greedy and sampled, by ids and by the bits of the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "equivalence/stepped_engine.h"
#include "sampling/noise.h"

namespace stoker::testing {
namespace {

using engine::TokenRequest;

// Under a sanitizer steps are many times slower: it sees every kind of case, not every case.
#ifdef STOKER_SANITIZED
constexpr bool kFew = true;
#else
constexpr bool kFew = false;
#endif

template <class T>
std::vector<T> some_of(std::vector<T> all, std::vector<T> few) {
  return kFew ? few : all;
}

class Equivalence : public ::testing::TestWithParam<const char*> {
 protected:
  const Models& models() const { return Models::get(GetParam()); }
  std::vector<int32_t> ids(uint32_t seed, int64_t length) const {
    return random_ids(models(), seed, length);
  }
  ::testing::AssertionResult same_as_alone(const Answer& answer, const TokenRequest& request,
                                           ReplayMode mode = ReplayMode::kOff) const {
    return same(answer, alone(models(), request, mode));
  }
  // Runs all of them at once.
  std::vector<Answer> answers(const std::vector<TokenRequest>& requests,
                              const SteppedEngine::Options& options) const {
    SteppedEngine engine(models(), options);
    std::vector<size_t> numbers;
    for (const TokenRequest& request : requests) numbers.push_back(engine.submit(request));
    engine.run();
    std::vector<Answer> out;
    for (const size_t number : numbers) out.push_back(engine.answer(number));
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Equivalence, ::testing::Values("small", "demo"),
                         [](const auto& model) { return model.param; });

TEST_P(Equivalence, ChunkedEqualsWhole) {
  for (const uint32_t seed : {2U, 3U}) {
    const TokenRequest request = request_of(ids(seed, kFew ? 40 : 140), 4, seed);
    for (const int64_t rows : some_of<int64_t>({1, 7, 64}, {7, 33})) {
      const auto chunked = answers({request}, {.limits = {.max_num_seqs = 1,
                                                          .kv_budget_bytes = int64_t{8} << 20,
                                                          .max_step_rows = rows}});
      EXPECT_TRUE(same_as_alone(chunked[0], request)) << "steps of " << rows << " rows";
    }
  }
}

TEST_P(Equivalence, InABatchEqualsAlone) {
  std::vector<TokenRequest> requests;
  for (uint32_t i = 0; i < 64; ++i)
    requests.push_back(request_of(ids(i % 16, 1 + i % 16 * (kFew ? 2 : 9)), kFew ? 2 : 6, i % 16));
  for (const size_t others : some_of<size_t>({1, 3, 63}, {1, 63})) {
    const std::vector<TokenRequest> some(requests.begin(),
                                         requests.begin() + static_cast<int64_t>(others) + 1);
    const auto together = answers(some, {});
    for (size_t i = 0; i < some.size(); ++i)
      EXPECT_TRUE(same_as_alone(together[i], some[i])) << i << " of " << some.size();
  }
}

TEST_P(Equivalence, AnyNumberOfThreadsEqualsOne) {
  const std::vector<TokenRequest> requests = {request_of(ids(4, kFew ? 30 : 90), 4, 4),
                                              request_of(ids(5, 20), 4, 5)};
  for (const int threads : {1, 2, 3}) {
    const auto together = answers(requests, {.num_threads = threads});
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_TRUE(same_as_alone(together[i], requests[i])) << threads << " threads";
  }
}

// A long prompt is there; then one that shares its first `cut` tokens, for every cut: nothing, less
// than a block, in the middle of a group, a block and more, all of it.
TEST_P(Equivalence, APrefixHitAtEveryCutEqualsCold) {
  constexpr int64_t kLength = 140;
  const std::vector<int32_t> prompt = ids(6, kLength);
  std::vector<int64_t> cuts;
  std::vector<TokenRequest> requests;
  for (int64_t cut = 0; cut <= kLength; cut += kFew ? 44 : 1) {
    std::vector<int32_t> other(prompt.begin(), prompt.begin() + cut);
    const std::vector<int32_t> tail = ids(1000 + static_cast<uint32_t>(cut), 2);
    if (cut < kLength) other.insert(other.end(), tail.begin(), tail.end());
    cuts.push_back(cut);
    requests.push_back(request_of(other, 2, static_cast<uint32_t>(cut)));
  }
  engine::EngineLimits no_cache = {.kv_budget_bytes = int64_t{64} << 20, .prefix_cache = false};
  no_cache.max_num_seqs = 160;
  const std::vector<Answer> cold = answers(requests, {.limits = no_cache});

  SteppedEngine engine(models(), {});
  engine.submit(request_of(prompt, 2, 6));
  engine.run();
  for (size_t i = 0; i < cuts.size(); ++i) {
    const size_t number = engine.submit(requests[i]);
    engine.run();
    EXPECT_TRUE(same(engine.answer(number), cold[i])) << "cut " << cuts[i];
    EXPECT_EQ(engine.answer(number).cached_tokens, cuts[i] >= 128 ? 128 : 0) << "cut " << cuts[i];
  }
}

// Several blocks, in every mode of replay, with images in small distances: hits start from images
// at ends, in the middle, and where others branched off.
TEST_P(Equivalence, HitsAcrossBlocksEqualCold) {
  for (const auto mode : some_of<ReplayMode>(
           {ReplayMode::kOff, ReplayMode::kExact, ReplayMode::kCompact}, {ReplayMode::kExact})) {
    const std::vector<int32_t> prompt = ids(7, 400);
    SteppedEngine engine(models(), {.replay = mode,
                                    .limits = {.kv_budget_bytes = int64_t{64} << 20,
                                               .max_step_rows = 150,
                                               .image_interval = 256}});
    engine.submit(request_of(prompt, 3, 7));
    engine.run();
    int64_t num_cached = 0;
    for (const int64_t cut : some_of<int64_t>(
             {399, 400, 385, 384, 383, 300, 257, 256, 255, 129, 300, 300}, {400, 383, 300, 300})) {
      std::vector<int32_t> other(prompt.begin(), prompt.begin() + cut);
      const std::vector<int32_t> tail = ids(2000 + static_cast<uint32_t>(cut), 20);
      other.insert(other.end(), tail.begin(), tail.end());
      const TokenRequest request = request_of(other, 3, static_cast<uint32_t>(cut));
      const size_t number = engine.submit(request);
      engine.run();
      EXPECT_TRUE(same_as_alone(engine.answer(number), request, mode))
          << "cut " << cut << ", mode " << static_cast<int>(mode);
      num_cached += engine.answer(number).cached_tokens;
    }
    EXPECT_GE(num_cached, 2 * 256) << "mode " << static_cast<int>(mode);
  }
}

// The same prompt again, one that goes on after the answer, one that differs at once.
TEST_P(Equivalence, ConversationsEqualCold) {
  SteppedEngine engine(models(), {});
  std::vector<int32_t> prompt = ids(8, 256);
  constexpr int32_t kAnswer = kFew ? 10 : 40;
  for (int turn = 0; turn < (kFew ? 2 : 3); ++turn) {
    const TokenRequest request = request_of(prompt, kAnswer, 9);
    for (int again = 0; again < 2; ++again) {
      const size_t number = engine.submit(request);
      engine.run();
      const Answer& answer = engine.answer(number);
      EXPECT_TRUE(same_as_alone(answer, request)) << "turn " << turn;
      const auto length = static_cast<int64_t>(prompt.size());
      if (turn > 0 || again > 0) {
        EXPECT_GE(answer.cached_tokens, length - kAnswer - 128 - 10) << "turn " << turn;
      }
      if (again == 1) prompt.insert(prompt.end(), answer.ids.begin(), answer.ids.end());
    }
    const std::vector<int32_t> next = ids(100 + static_cast<uint32_t>(turn), 10);
    prompt.insert(prompt.end(), next.begin(), next.end());
  }
  prompt[0] = prompt[0] == 5 ? 6 : 5;
  const TokenRequest request = request_of(prompt, 3, 9);
  const size_t number = engine.submit(request);
  engine.run();
  EXPECT_TRUE(same_as_alone(engine.answer(number), request));
  EXPECT_EQ(engine.answer(number).cached_tokens, 0) << "it differs at the first token";
}

TEST_P(Equivalence, SharingWhileTheFirstStillRunsEqualsCold) {
  const std::vector<int32_t> prompt = ids(10, 300);
  for (const int64_t head_start : some_of<int64_t>({0, 1, 3, 8}, {0, 3})) {
    SteppedEngine engine(models(), {.limits = {.kv_budget_bytes = int64_t{64} << 20,
                                               .max_step_rows = 64,
                                               .image_interval = 128}});
    std::vector<TokenRequest> requests;
    std::vector<size_t> numbers;
    for (uint32_t i = 0; i < 4; ++i) {
      std::vector<int32_t> other(prompt.begin(), prompt.begin() + 300 - i * 37);
      other.push_back(static_cast<int32_t>(i));
      requests.push_back(request_of(other, 6, 20 + i));
    }
    numbers.push_back(engine.submit(requests[0]));
    for (int64_t i = 0; i < head_start; ++i) engine.step();
    for (size_t i = 1; i < requests.size(); ++i) numbers.push_back(engine.submit(requests[i]));
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_TRUE(same_as_alone(engine.answer(numbers[i]), requests[i]))
          << i << ", " << head_start << " steps behind";
    }
    EXPECT_GT(engine.metrics().total_cached_tokens.get(), 0);
  }
}

// The choices of a request: one prompt, a seed for each. All but one take up what one computes.
TEST_P(Equivalence, ChoicesEqualThemselvesAlone) {
  const std::vector<int32_t> prompt = ids(80, 300);
  for (const uint32_t seed : {1U, 103U}) {
    std::vector<TokenRequest> requests;
    for (uint64_t j = 0; j < 4; ++j) {
      requests.push_back(request_of(prompt, 8, seed));
      requests.back().seed = sampling::choice_seed(seed, j);
    }
    SteppedEngine engine(models(), {.limits = {.kv_budget_bytes = int64_t{64} << 20,
                                               .max_step_rows = 64,
                                               .image_interval = 128}});
    std::vector<size_t> numbers;
    for (const TokenRequest& request : requests) numbers.push_back(engine.submit(request));
    engine.run();
    for (size_t j = 0; j < requests.size(); ++j) {
      EXPECT_TRUE(same_as_alone(engine.answer(numbers[j]), requests[j])) << "choice " << j;
      EXPECT_EQ(engine.answer(numbers[j]).cached_tokens, j == 0 ? 0 : 256) << "choice " << j;
    }
  }
}

TEST_P(Equivalence, SaltsAndResetsEqualCold) {
  SteppedEngine engine(models(), {});
  const TokenRequest request = request_of(ids(11, 200), 4, 11);
  TokenRequest salted = request;
  salted.cache_salt = "another tenant";
  const auto run = [&](const TokenRequest& one) {
    const size_t number = engine.submit(one);
    engine.run();
    EXPECT_TRUE(same_as_alone(engine.answer(number), request));
    return engine.answer(number).cached_tokens;
  };
  EXPECT_EQ(run(request), 0);
  EXPECT_EQ(run(request), 128);
  EXPECT_EQ(run(salted), 0);
  EXPECT_EQ(run(salted), 128);
  engine.scheduler().reset_cache();
  EXPECT_EQ(run(request), 0);
  EXPECT_EQ(run(salted), 0);
}

TEST_P(Equivalence, PreemptedAtAnyStepEqualsUndisturbed) {
  for (const bool prefix_cache : {false, true}) {
    for (const auto mode :
         some_of<ReplayMode>({ReplayMode::kExact, ReplayMode::kCompact}, {ReplayMode::kExact})) {
      const TokenRequest request = request_of(ids(12, 140), 6, 13);
      for (int64_t at = 1; at < 12; at += kFew ? 6 : 1) {
        SteppedEngine engine(models(), {.replay = mode,
                                        .limits = {.kv_budget_bytes = int64_t{64} << 20,
                                                   .max_step_rows = 32,
                                                   .prefix_cache = prefix_cache,
                                                   .image_interval = 128}});
        const size_t number = engine.submit(request);
        for (int64_t i = 0; i < at; ++i) engine.step();
        if (const engine::Sequence* sequence = engine.sequence(number))
          engine.scheduler().preempt(*sequence);
        engine.step();
        if (const engine::Sequence* sequence = engine.sequence(number))
          engine.scheduler().preempt(*sequence);  // and again at once
        engine.run();
        EXPECT_TRUE(same_as_alone(engine.answer(number), request, mode))
            << "at step " << at << ", cache " << prefix_cache << ", mode "
            << static_cast<int>(mode);
      }
    }
  }
}

// A pool that is too small for those who run: they lose their state, and run again.
TEST_P(Equivalence, InATightPoolEqualsAlone) {
  const KvShape shape = models().model(ReplayMode::kExact).state_shape();
  std::vector<TokenRequest> requests;
  for (uint32_t i = 0; i < 3; ++i) requests.push_back(request_of(ids(30 + i, 250 - i), 16, i));
  for (const bool prefix_cache : {false, true}) {
    const int64_t block = shape.block_bytes() + (prefix_cache ? kIndexBytesPerBlock : 0);
    engine::EngineLimits limits = {.max_num_seqs = 2, .prefix_cache = prefix_cache};
    limits.image_budget_bytes = prefix_cache ? 4 * shape.image_unit_bytes() : 0;
    limits.kv_budget_bytes = 2 * shape.slot_bytes() + limits.image_budget_bytes + 5 * block;
    SteppedEngine engine(models(), {.limits = limits});
    ASSERT_EQ(engine.plan().num_slots, 2);
    ASSERT_EQ(engine.plan().num_blocks, 5);
    std::vector<size_t> numbers;
    for (const auto& request : requests) numbers.push_back(engine.submit(request));
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_TRUE(same_as_alone(engine.answer(numbers[i]), requests[i])) << i;
    EXPECT_GE(engine.metrics().total_preemptions.get(), 1) << "both came to three blocks of five";
  }
}

TEST_P(Equivalence, ExactReplayEqualsOff) {
  for (const int64_t length : some_of<int64_t>({1, 20, 33, 64, 130, 260}, {33, 130})) {
    const TokenRequest request = request_of(ids(40, length), 6, static_cast<uint32_t>(length));
    for (const bool prefix_cache : {false, true}) {
      const auto exact = answers({request}, {.replay = ReplayMode::kExact,
                                             .limits = {.kv_budget_bytes = int64_t{16} << 20,
                                                        .max_step_rows = 50,
                                                        .prefix_cache = prefix_cache}});
      EXPECT_TRUE(same_as_alone(exact[0], request, ReplayMode::kOff)) << length << " tokens";
    }
  }
}

// Compact depends on the request alone too: on no chunk, hit or preemption.
TEST_P(Equivalence, CompactReplayEqualsItselfAlone) {
  for (const int64_t length : some_of<int64_t>({30, 200, 330}, {200})) {
    const TokenRequest request = request_of(ids(41, length), 6, 42);
    for (const int64_t rows : some_of<int64_t>({13, 128}, {50})) {
      const auto twice =
          answers({request, request}, {.replay = ReplayMode::kCompact,
                                       .limits = {.max_num_seqs = 1,
                                                  .kv_budget_bytes = int64_t{16} << 20,
                                                  .max_step_rows = rows,
                                                  .image_interval = 128}});
      for (const Answer& answer : twice)
        EXPECT_TRUE(same_as_alone(answer, request, ReplayMode::kCompact)) << length << " tokens";
    }
  }
}

TEST_P(Equivalence, NeighboursPrioritiesAndArrivalChangeNothing) {
  std::vector<TokenRequest> requests;
  for (uint32_t i = 0; i < 6; ++i)
    requests.push_back(request_of(ids(50 + i, 20 + i * (kFew ? 3 : 25)), 5, i));
  for (int round = 0; round < (kFew ? 2 : 3); ++round) {
    SteppedEngine engine(
        models(),
        {.limits = {.max_num_seqs = 3, .kv_budget_bytes = int64_t{16} << 20, .max_step_rows = 30}});
    std::vector<size_t> numbers;
    std::vector<size_t> doomed;
    for (size_t i = 0; i < requests.size(); ++i) {
      TokenRequest request = requests[i];
      request.priority = round == 0 ? 0 : static_cast<int32_t>((i * 7 + 3) % 4);
      numbers.push_back(engine.submit(request));
      TokenRequest neighbour = request_of(ids(60 + static_cast<uint32_t>(i), 40), 50, 1);
      neighbour.priority = round - 1;
      doomed.push_back(engine.submit(neighbour));
    }
    for (const size_t number : doomed) {
      engine.step();
      engine.cancel(number);
    }
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_TRUE(same_as_alone(engine.answer(numbers[i]), requests[i])) << i;
    std::reverse(requests.begin(), requests.end());
  }
}

// The log-probabilities of a prompt are those of its rows run in full, beside others and twice.
TEST_P(Equivalence, PromptLogprobsAreTheSameInAnyCompany) {
  constexpr int64_t kLength = kFew ? 90 : 200;
  TokenRequest request = request_of(ids(70, kLength), 2, 2);
  request.prompt_logprobs = 0;
  std::vector<std::vector<PositionLogprobs>> found;
  for (const int64_t rows : some_of<int64_t>({4096, 50, 9}, {4096, 50})) {
    auto stepper = engine::Stepper::create(
        models().model(ReplayMode::kExact), 2,
        {.max_num_seqs = 2, .kv_budget_bytes = int64_t{16} << 20, .max_step_rows = rows});
    const auto stream = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
    const auto other = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
    auto first = *(*stepper)->sequence_of(request_of(request.prompt, 2, 3), other);
    (*stepper)->scheduler().enqueue(std::move(first));
    auto sequence = *(*stepper)->sequence_of(request, stream);
    sequence->key.arrival = 1;
    (*stepper)->scheduler().enqueue(std::move(sequence));
    while (!(*stepper)->scheduler().running().empty() || (*stepper)->scheduler().num_waiting() > 0)
      (*stepper)->step();
    const engine::TokenProgress progress = stream->take();
    EXPECT_EQ(progress.tokens, alone(models(), request_of(request.prompt, 2, 2)).ids);
    EXPECT_EQ(progress.cost.cached_tokens, 0);
    found.push_back(progress.prompt_logprobs);
  }
  ASSERT_EQ(found[0].size(), static_cast<size_t>(kLength - 1));
  for (const PositionLogprobs& at : found[0]) EXPECT_LE(at.logprob, 0);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found.back());
}

}  // namespace
}  // namespace stoker::testing
