// What a request may say about sampling, stopping and log-probabilities, with the real engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "stoker/llm.h"
#include "stoker/receipt.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int32_t kEos = 1;

class SamplingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto demo = LLM::open("demo", {.num_threads = 2, .log = {}, .progress = {}});
    ASSERT_TRUE(demo) << demo.error().message;
    demo_ = new LLM(*std::move(demo));
  }
  static void TearDownTestSuite() {
    delete demo_;
    demo_ = nullptr;
  }

  // "The capital of France is", greedy.
  static Request france(int32_t max_tokens = 12) {
    Request request;
    request.prompt = TextPrompt{"The capital of France is", true};
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    return request;
  }

  static Generation ask(const Request& request) {
    auto answers = demo_->generate({request});
    if (answers[0]) return *std::move(answers[0]);
    ADD_FAILURE() << answers[0].error().message;
    return {};
  }

  static Error refused(const Request& request) {
    auto answers = demo_->generate({request});
    if (!answers[0]) return answers[0].error();
    ADD_FAILURE() << "was not refused";
    return {};
  }

  static int32_t vocab() { return demo_->model().vocab_size; }

  static LLM* demo_;
};
LLM* SamplingTest::demo_ = nullptr;

TEST_F(SamplingTest, WhatIsOutOfRangeNamesFieldRangeAndValue) {
  struct Case {
    void (*set)(Request& request);
    const char* field;
    const char* range;
    const char* value;
  };
  const Case cases[] = {
      {[](Request& r) { r.sampling.temperature = -0.5; }, "temperature", "at least 0", "-0.5"},
      {[](Request& r) { r.sampling.temperature = NAN; }, "temperature", "at least 0", "nan"},
      {[](Request& r) { r.sampling.top_p = 0; }, "top_p", "above 0 and at most 1", "found 0"},
      {[](Request& r) { r.sampling.top_k = -2; }, "top_k", "at least 1", "-2"},
      {[](Request& r) { r.sampling.min_p = 1.5; }, "min_p", "from 0 to 1", "1.5"},
      {[](Request& r) { r.sampling.min_p = NAN; }, "min_p", "from 0 to 1", "nan"},
      {[](Request& r) { r.sampling.repetition_penalty = 0; }, "repetition_penalty",
       "from 1e-06 to 1000000", "found 0"},
      {[](Request& r) { r.sampling.presence_penalty = 2.5; }, "presence_penalty", "from -2 to 2",
       "2.5"},
      {[](Request& r) { r.sampling.frequency_penalty = -3; }, "frequency_penalty", "from -2 to 2",
       "-3"},
      {[](Request& r) {
         r.sampling.logit_bias = {{5, 101}};
       },
       "logit_bias", "from -100 to 100", "101"},
      {[](Request& r) {
         r.sampling.logit_bias = {{-1, 1}};
       },
       "logit_bias", "ids from 0", "-1"},
      {[](Request& r) { r.sampling.allowed_token_ids = {1 << 30}; }, "allowed_token_ids",
       "ids from 0", "1073741824"},
      {[](Request& r) { r.sampling.banned_token_ids = {-7}; }, "banned_token_ids", "ids from 0",
       "-7"},
      {[](Request& r) { r.sampling.bad_words = {""}; }, "bad_words", "1 to 256 bytes", "of 0"},
      {[](Request& r) { r.n = 0; }, "n", "1 to 128", "found 0"},
      {[](Request& r) { r.n = 129; }, "n", "1 to 128", "129"},
      {[](Request& r) { r.logprobs = 21; }, "logprobs", "0 to 20", "21"},
      {[](Request& r) { r.prompt_logprobs = -1; }, "prompt_logprobs", "0 to 20", "-1"},
      {[](Request& r) {
         r.repetition_detection = {1025, 1, 2};
       },
       "repetition_detection.max_pattern_size", "0 to 1024", "1025"},
      {[](Request& r) {
         r.repetition_detection = {4, 5, 2};
       },
       "repetition_detection.min_pattern_size", "0 to 4", "5"},
      {[](Request& r) {
         r.repetition_detection = {4, 0, 1};
       },
       "repetition_detection.min_count", "2 to", "1"},
      {[](Request& r) { r.min_tokens = -1; }, "min_tokens", "0 to 12", "-1"},
      {[](Request& r) { r.min_tokens = 13; }, "min_tokens", "0 to 12", "13"},
      {[](Request& r) { r.stop_token_ids = {1 << 30}; }, "stop_token_ids", "ids from 0",
       "1073741824"},
      {[](Request& r) { r.stop_token_ids.resize(1025); }, "stop_token_ids", "at most 1024", "1025"},
      // Contradictions.
      {[](Request& r) {
         r.sampling.allowed_token_ids = {5};
         r.sampling.banned_token_ids = {5};
       },
       "allowed_token_ids", "may be chosen", "all of them banned"},
      {[](Request& r) {
         r.sampling.allowed_token_ids = {kEos};
         r.min_tokens = 1;
       },
       "allowed_token_ids", "may be chosen", "all of them banned"},
      {[](Request& r) {
         for (int32_t id = 0; id < vocab(); ++id) r.sampling.banned_token_ids.push_back(id);
       },
       "logit_bias", "may be chosen", "all of them banned"},
  };
  for (const Case& one : cases) {
    Request request = france();
    one.set(request);
    const Error error = refused(request);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << one.field;
    EXPECT_EQ(error.field, one.field);
    EXPECT_THAT(error.message, HasSubstr(std::string(one.field) + ": expected"));
    EXPECT_THAT(error.message, HasSubstr(one.range));
    EXPECT_THAT(error.message, HasSubstr(one.value));
  }
}

// Log-probabilities of an answer are those of the same tokens as a prompt.
TEST_F(SamplingTest, LogprobsOfAnAnswerAreThoseOfItAsAPrompt) {
  Request request = france();
  request.sampling.temperature = 1.3;
  request.sampling.repetition_penalty = 1.5;
  request.sampling.seed = 3;
  request.logprobs = 5;
  const Generation answer = ask(request);
  ASSERT_EQ(answer.details.size(), answer.ids.size());

  Request again = france(1);
  std::vector<int32_t> all = answer.prompt_ids;
  all.insert(all.end(), answer.ids.begin(), answer.ids.end());
  again.prompt = TokenPrompt{all};
  again.prompt_logprobs = 5;
  const Generation prompt = ask(again);
  ASSERT_EQ(prompt.prompt_logprobs.size() + 1, all.size());
  const auto first = prompt.prompt_logprobs.end() - static_cast<int64_t>(answer.ids.size());
  for (size_t i = 0; i < answer.ids.size(); ++i) {
    const PositionLogprobs& told = answer.details[i].logprobs;
    EXPECT_EQ(told, first[static_cast<int64_t>(i)]) << i;
    ASSERT_EQ(told.top.size(), 5U);
    EXPECT_LE(told.logprob, told.top[0].logprob);
    if (told.rank <= 5) {
      EXPECT_EQ(told.top[static_cast<size_t>(told.rank) - 1].id, answer.ids[i]);
    }
    for (size_t k = 1; k < 5; ++k) EXPECT_GE(told.top[k - 1].logprob, told.top[k].logprob);
  }
}

TEST_F(SamplingTest, OffsetsAndShownTokensFollowTheText) {
  Request request = france();
  request.logprobs = 0;
  const Generation answer = ask(request);
  std::string text;
  for (size_t i = 0; i < answer.ids.size(); ++i) {
    if (answer.details[i].part == TokenPart::kHidden) continue;
    EXPECT_EQ(answer.details[i].text_offset, static_cast<int64_t>(text.size()));
    text += demo_->engine().token_bytes(answer.ids[i]);
  }
  EXPECT_EQ(text, answer.text);
  EXPECT_EQ(answer.num_shown, static_cast<int32_t>(answer.ids.size()));

  Request cut = request;
  cut.stop = {answer.text.substr(3, 4)};
  const Generation stopped = ask(cut);
  EXPECT_EQ(stopped.text, answer.text.substr(0, 3));
  EXPECT_EQ(stopped.finish.stop, cut.stop[0]);
  EXPECT_FALSE(stopped.finish.stop_token);
  size_t num_before = 0;
  while (answer.details[num_before].text_offset < 3) ++num_before;
  EXPECT_EQ(stopped.num_shown, static_cast<int32_t>(num_before));

  cut.include_stop_str_in_output = true;
  EXPECT_EQ(ask(cut).text, answer.text.substr(0, 7));
}

TEST_F(SamplingTest, AnswersGoOnBehindTheEndOfTextIfTold) {
  const Generation usual = ask(france(40));
  ASSERT_EQ(usual.finish.reason, FinishReason::kStop);
  ASSERT_EQ(usual.ids.back(), kEos);
  EXPECT_FALSE(usual.finish.stop_token);
  Request request = france(40);
  request.ignore_eos = true;
  const Generation longer = ask(request);
  EXPECT_EQ(longer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(longer.ids.size(), 40U);
  EXPECT_TRUE(std::equal(usual.ids.begin(), usual.ids.end(), longer.ids.begin()));
  EXPECT_EQ(longer.text.substr(0, usual.text.size()), usual.text);

  request.stop_token_ids = {kEos};
  const Generation stopped = ask(request);
  EXPECT_EQ(stopped.ids, usual.ids);
  EXPECT_EQ(stopped.finish.stop_token, kEos);
}

TEST_F(SamplingTest, StopTokensEndAnAnswerAndAreNotShown) {
  const Generation usual = ask(france());
  Request request = france();
  request.stop_token_ids = {usual.ids[1], usual.ids[3]};
  const Generation stopped = ask(request);
  EXPECT_EQ(stopped.finish.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.ids, std::vector<int32_t>(usual.ids.begin(), usual.ids.begin() + 2));
  EXPECT_EQ(stopped.finish.stop_token, usual.ids[1]);
  EXPECT_EQ(stopped.text, demo_->engine().token_bytes(usual.ids[0]));
  request.include_stop_str_in_output = true;
  EXPECT_EQ(
      ask(request).text,
      usual.text.substr(0, stopped.text.size() + demo_->engine().token_bytes(usual.ids[1]).size()));
}

TEST_F(SamplingTest, NothingEndsAnAnswerBeforeItsLeastTokens) {
  const Generation usual = ask(france(40));
  ASSERT_LT(usual.ids.size(), 20U);
  Request request = france(40);
  request.min_tokens = 30;
  const Generation longer = ask(request);
  EXPECT_GE(longer.ids.size(), 30U);
  EXPECT_EQ(std::count(longer.ids.begin(), longer.ids.begin() + 30, kEos), 0);

  Request stops = france(20);
  stops.ignore_eos = true;
  const std::string first = demo_->engine().token_bytes(usual.ids[0]);
  stops.stop = {first};
  EXPECT_EQ(ask(stops).ids.size(), 1U);
  stops.min_tokens = 1;
  const Generation later = ask(stops);
  EXPECT_GT(later.ids.size(), 1U) << "the text of the first token is not looked at";
  EXPECT_EQ(later.text.substr(0, first.size()), first);
}

TEST_F(SamplingTest, BiasAndBansHoldThroughTheAnswer) {
  const Generation usual = ask(france());
  Request banned = france();
  banned.sampling.banned_token_ids = {usual.ids[0]};
  const Generation without = ask(banned);
  EXPECT_EQ(std::count(without.ids.begin(), without.ids.end(), usual.ids[0]), 0);
  Request biased = france();
  biased.sampling.logit_bias = {{usual.ids[0], -100}};
  EXPECT_EQ(ask(biased).ids, without.ids) << "-100 bans";
  biased.sampling.logit_bias = {{77, 100}};
  EXPECT_EQ(ask(biased).ids, std::vector<int32_t>(12, 77));
  Request allowed = france();
  allowed.sampling.temperature = 5;
  allowed.sampling.allowed_token_ids = {90, 91, 92};
  const Generation few = ask(allowed);
  for (const int32_t id : few.ids) EXPECT_TRUE(id >= 90 && id <= 92);
  Request words = france();
  words.sampling.bad_words = {"Paris"};
  EXPECT_THAT(usual.text, HasSubstr("Paris"));
  EXPECT_THAT(ask(words).text, Not(HasSubstr("Paris")));
}

// A runtime contradiction: no token is left after some.
TEST_F(SamplingTest, BansThatLeaveNothingLaterEndTheRequestWithAnError) {
  Request request = france();
  const std::string word = demo_->engine().token_bytes(300);
  request.sampling.allowed_token_ids = {300};
  request.sampling.bad_words = {word + word};
  const Error error = refused(request);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("bad_words"));
}

TEST_F(SamplingTest, PenaltiesSpreadWhatIsChosen) {
  Request request = france(40);
  request.sampling.temperature = 1;
  request.sampling.top_k = 3;
  request.sampling.seed = 5;
  request.sampling.allowed_token_ids = {60, 61, 62, 63, 64, 65, 66, 67, 68, 69};
  const auto num_kinds = [](const Generation& answer) {
    return std::set<int32_t>(answer.ids.begin(), answer.ids.end()).size();
  };
  const size_t usual = num_kinds(ask(request));
  request.sampling.frequency_penalty = 2;
  request.sampling.presence_penalty = 2;
  EXPECT_GT(num_kinds(ask(request)), usual);
}

TEST_F(SamplingTest, ChoicesOfAGreedyRequestAreCopies) {
  Request request = france();
  request.n = 3;
  const Generation answer = ask(request);
  for (const Choice& choice : answer.others) EXPECT_EQ(choice.text, answer.text);
}

TEST_F(SamplingTest, CancellingEndsAllChoices) {
  Request request = france(1000);
  request.ignore_eos = true;
  request.n = 4;
  auto stream = demo_->engine().submit(request);
  ASSERT_TRUE(stream);
  EXPECT_EQ((*stream)->num_choices(), 4);
  std::set<int32_t> started;
  int num_ended = 0;
  for (int i = 0; i < 6000 && num_ended < 4; ++i) {
    const auto event = (*stream)->wait(std::chrono::milliseconds(10));
    if (!event) continue;
    started.insert(event->choice);
    if (started.size() == 4) (*stream)->cancel();
    if (!event->finish) continue;
    EXPECT_EQ(event->finish->reason, FinishReason::kCancelled);
    ++num_ended;
  }
  EXPECT_EQ(num_ended, 4);
  EXPECT_FALSE((*stream)->poll());
  stream->reset();
  for (int i = 0; i < 500 && demo_->engine().stats().num_running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(demo_->engine().stats().num_running, 0);
}

// ---- A budget of reasoning: its end comes where it is used up, with drafts or without

class ThinkingTest : public ::testing::Test {
 protected:
  // Two engines: no drafts, and drafts in every step.
  static void SetUpTestSuite() {
    for (const bool drafts : {false, true}) {
      EngineOptions options{.num_threads = 2, .log = {}, .progress = {}};
      options.speculation.mode = drafts ? Speculation::kOn : Speculation::kOff;
      options.speculation.enable_adaptive_verification = false;
      auto demo = LLM::open("demo", options);
      ASSERT_TRUE(demo) << demo.error().message;
      thinkers_.push_back(new LLM(*std::move(demo)));
    }
  }
  static void TearDownTestSuite() {
    for (LLM* demo : thinkers_) delete demo;
    thinkers_.clear();
  }

  static Request puzzle(std::optional<int32_t> budget, const char* thinking = "enabled") {
    Request request;
    ChatPrompt prompt;
    prompt.messages = {{"user", {"What is the capital of France?"}}};
    prompt.thinking = thinking;
    request.prompt = prompt;
    request.sampling.seed = 11;
    request.max_tokens = 120;
    request.thinking_token_budget = budget;
    return request;
  }

  static Choice ask_one(const Request& request, bool drafts = false) {
    auto answers = thinkers_[drafts ? 1 : 0]->generate({request});
    if (answers[0]) return *std::move(answers[0]);
    ADD_FAILURE() << answers[0].error().message;
    return {};
  }

  static std::vector<LLM*> thinkers_;
};
std::vector<LLM*> ThinkingTest::thinkers_;

// Up to the end of the reasoning the tokens are those of no budget.
TEST_F(ThinkingTest, ReasoningEndsBehindItsBudget) {
  for (const double temperature : {0.0, 1.0}) {
    Request request = puzzle(std::nullopt);
    request.sampling.temperature = temperature;
    const Choice free = ask_one(request);
    ASSERT_GT(free.finish.usage.reasoning_tokens, 6) << free.reasoning;
    for (const int32_t budget : {0, 1, 5}) {
      request.thinking_token_budget = budget;
      const Choice bounded = ask_one(request);
      EXPECT_EQ(bounded.finish.usage.reasoning_tokens, budget + 1);
      EXPECT_FALSE(bounded.text.empty());
      EXPECT_EQ(bounded.reasoning.empty(), budget == 0) << bounded.reasoning;
      EXPECT_EQ(free.reasoning.rfind(bounded.reasoning, 0), 0U) << bounded.reasoning;
      for (size_t i = 0; i < static_cast<size_t>(budget); ++i)
        EXPECT_EQ(bounded.ids[i], free.ids[i]);
    }
    request.thinking_token_budget = free.finish.usage.reasoning_tokens;
    EXPECT_EQ(ask_one(request).ids, free.ids) << "it ended by itself";
  }
}

TEST_F(ThinkingTest, DraftsChangeNothing) {
  int64_t accepted = 0;
  for (int32_t budget = 0; budget < 12; ++budget) {
    Request request = puzzle(budget);
    request.sampling.temperature = budget % 2;
    request.max_tokens = 40;
    request.n = 2;
    auto plain = thinkers_[0]->generate({request});
    auto drafted = thinkers_[1]->generate({request});
    ASSERT_TRUE(plain[0] && drafted[0]);
    for (size_t j = 0; j < 2; ++j) {
      const Choice& one = j == 0 ? *plain[0] : plain[0]->others[j - 1];
      const Choice& other = j == 0 ? *drafted[0] : drafted[0]->others[j - 1];
      EXPECT_EQ(one.ids, other.ids) << budget;
      accepted += other.finish.accepted_drafts;
    }
  }
  EXPECT_GT(accepted, 20);
}

TEST_F(ThinkingTest, NoBanKeepsTheEndAway) {
  Request request = puzzle(4);
  const Choice free = ask_one(request);
  const int32_t end = free.ids[4];
  request.sampling.logit_bias[end] = -100;
  const Choice banned = ask_one(request);
  EXPECT_EQ(banned.ids[4], end);
  EXPECT_EQ(std::count(banned.ids.begin(), banned.ids.end(), end), 1);
}

// The form of the answer begins behind it.
TEST_F(ThinkingTest, AFormIsKeptBehindIt) {
  for (const bool drafts : {false, true}) {
    Request request = puzzle(3);
    request.structure = {Structure::Kind::kChoice, "", {"Rome", "Bern, of course"}};
    const Choice answer = ask_one(request, drafts);
    EXPECT_EQ(answer.finish.usage.reasoning_tokens, 4);
    EXPECT_THAT(answer.text, ::testing::AnyOf("Rome", "Bern, of course"));
    EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  }
}

TEST_F(ThinkingTest, WithoutReasoningItBoundsNothing) {
  EXPECT_EQ(ask_one(puzzle(2, "disabled")).ids, ask_one(puzzle(std::nullopt, "disabled")).ids);
}

TEST_F(ThinkingTest, ReceiptsHaveIt) {
  Request request = puzzle(5);
  request.receipt = true;
  const Choice answer = ask_one(request);
  EXPECT_THAT(answer.finish.receipt, HasSubstr(R"("thinking_token_budget":5)"));
  const auto receipt = parse_receipt(answer.finish.receipt);
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(receipt->request.thinking_token_budget, 5);
  for (const bool drafts : {false, true}) {
    const auto again = replay_request(*receipt, thinkers_[0]->model());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_FALSE(first_difference(*receipt, ask_one(*again, drafts)));
  }
  Request other = receipt->request;
  other.thinking_token_budget.reset();
  other.max_tokens = static_cast<int32_t>(receipt->ids.size());
  EXPECT_TRUE(first_difference(*receipt, ask_one(other))) << "the budget decided nothing";
}

TEST_F(ThinkingTest, WhatContradictsItIsRefused) {
  auto answers = thinkers_[0]->generate({puzzle(-1)});
  ASSERT_FALSE(answers[0]);
  EXPECT_EQ(answers[0].error().field, "thinking_token_budget");
  Request request = puzzle(4);
  const int32_t end = ask_one(request).ids[4];
  request.stop_token_ids = {end};
  EXPECT_EQ(ask_one(request).finish.stop_token, end);
  request.min_tokens = 5;
  answers = thinkers_[0]->generate({request});
  ASSERT_FALSE(answers[0]);
  EXPECT_EQ(answers[0].error().field, "thinking_token_budget");
}

// ---- Answers that repeat themselves: greedy ones do so soon

class RepetitionTest : public ::testing::Test {
 protected:
  // Two engines: no drafts, and drafts in every step.
  static void SetUpTestSuite() {
    for (const bool drafts : {false, true}) {
      EngineOptions options{.num_threads = 2, .log = {}, .progress = {}};
      options.speculation.mode = drafts ? Speculation::kOn : Speculation::kOff;
      options.speculation.enable_adaptive_verification = false;
      auto demo = LLM::open("demo", options);
      ASSERT_TRUE(demo) << demo.error().message;
      repeaters_.push_back(new LLM(*std::move(demo)));
    }
  }
  static void TearDownTestSuite() {
    for (LLM* demo : repeaters_) delete demo;
    repeaters_.clear();
  }

  // Of tokens that leave little to say.
  static Request babble() {
    Request request;
    request.prompt = TextPrompt{"The capital of France is", true};
    request.sampling.temperature = 0;
    request.sampling.allowed_token_ids = {300, 301, 302, 303, 304};
    request.ignore_eos = true;
    request.max_tokens = 200;
    return request;
  }

  static Choice repeat(const Request& request, bool drafts = false) {
    auto answers = repeaters_[drafts ? 1 : 0]->generate({request});
    if (answers[0]) return *std::move(answers[0]);
    ADD_FAILURE() << answers[0].error().message;
    return {};
  }

  static std::vector<LLM*> repeaters_;
};
std::vector<LLM*> RepetitionTest::repeaters_;

// The end of an answer is a pattern of some size up to `most`, `count` times.
bool ends_in_repetition(const std::vector<int32_t>& ids, size_t most, size_t count) {
  for (size_t size = 1; size <= most && size * count <= ids.size(); ++size) {
    bool is_equal = true;
    for (size_t i = ids.size() - size * (count - 1); i < ids.size(); ++i)
      is_equal = is_equal && ids[i] == ids[i - size];
    if (is_equal) return true;
  }
  return false;
}

// At the first token with which it does so, whatever drafts were made.
TEST_F(RepetitionTest, EndsAnAnswerThatRepeatsItself) {
  const Choice free = repeat(babble());
  EXPECT_EQ(free.finish.reason, FinishReason::kLength);
  for (const int32_t count : {2, 3, 6}) {
    size_t first = 1;
    const auto head = [&free](size_t n) {
      return std::vector<int32_t>(free.ids.begin(), free.ids.begin() + static_cast<ptrdiff_t>(n));
    };
    while (first < free.ids.size() &&
           !ends_in_repetition(head(first), 8, static_cast<size_t>(count)))
      ++first;
    ASSERT_LT(first, free.ids.size()) << "it never repeats itself";
    Request request = babble();
    request.repetition_detection = {8, 0, count};
    for (const bool drafts : {false, true}) {
      const Choice answer = repeat(request, drafts);
      EXPECT_EQ(answer.finish.reason, FinishReason::kRepetition);
      EXPECT_EQ(answer.ids, head(first)) << "count " << count << ", drafts " << drafts;
    }
  }
}

TEST_F(RepetitionTest, WaitsForTheLeastTokens) {
  Request request = babble();
  request.repetition_detection = {8, 1, 2};
  request.min_tokens = 50;
  const Choice answer = repeat(request);
  EXPECT_EQ(answer.finish.reason, FinishReason::kRepetition);
  EXPECT_GE(answer.ids.size(), 50U);
  EXPECT_EQ(repeat(request, true).ids, answer.ids);
  request.repetition_detection = RepetitionDetection{};
  EXPECT_EQ(repeat(request).finish.reason, FinishReason::kLength) << "it is off";
}

TEST_F(RepetitionTest, IsReplayedAndCounted) {
  Request request = babble();
  request.repetition_detection = {8, 0, 3};
  request.receipt = true;
  const int64_t before = repeaters_[0]->engine().stats().total_repeated;
  const Choice answer = repeat(request);
  EXPECT_EQ(repeaters_[0]->engine().stats().total_repeated, before + 1);
  EXPECT_THAT(answer.finish.receipt, HasSubstr(R"("finish_reason":"repetition")"));
  const auto receipt = parse_receipt(answer.finish.receipt);
  ASSERT_TRUE(receipt) << receipt.error().message;
  const auto again = replay_request(*receipt, repeaters_[0]->model());
  ASSERT_TRUE(again) << again.error().message;
  for (const bool drafts : {false, true})
    EXPECT_FALSE(first_difference(*receipt, repeat(*again, drafts)));
}

}  // namespace
}  // namespace stoker
