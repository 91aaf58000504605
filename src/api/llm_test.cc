#include "stoker/llm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace stoker {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kCountries = {"France", "Italy", "Norway", "Japan", "Peru", "Cuba"};
const std::vector<std::string> kCapitals = {"Paris", "Rome", "Oslo", "Tokyo", "Lima", "Havana"};

ChatPrompt question(const std::string& country, const std::string& thinking = "disabled") {
  ChatPrompt prompt;
  prompt.messages.push_back({"user", {"What is the capital of " + country + "?"}, ""});
  prompt.thinking = thinking;
  return prompt;
}

Request greedy(int32_t max_tokens) {
  Request request;
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

Request ids_request(std::vector<int32_t> ids, int32_t max_tokens) {
  Request request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = max_tokens;
  return request;
}

// What Engine::submit gives for the request alone.
Generation alone(Engine& engine, Request request) {
  request.n = 1;
  auto stream = engine.submit(request);
  if (!stream) {
    ADD_FAILURE() << stream.error().message;
    return {};
  }
  Generation answer;
  answer.prompt_ids = (*stream)->prompt_ids();
  answer.seed = (*stream)->seed();
  for (int i = 0; i < 6000; ++i) {
    auto event = (*stream)->wait(10ms);
    if (!event) continue;
    answer.text += event->text;
    answer.reasoning += event->reasoning;
    answer.ids.insert(answer.ids.end(), event->ids.begin(), event->ids.end());
    answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), event->prompt_logprobs.begin(),
                                  event->prompt_logprobs.end());
    if (event->finish) {
      answer.finish = *event->finish;
      return answer;
    }
  }
  ADD_FAILURE() << "a request never ended";
  return answer;
}

void expect_equal(const Result<Generation>& found, const Generation& expected) {
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->prompt_ids, expected.prompt_ids);
  EXPECT_EQ(found->ids, expected.ids);
  EXPECT_EQ(found->text, expected.text);
  EXPECT_EQ(found->reasoning, expected.reasoning);
  EXPECT_EQ(found->seed, expected.seed);
  EXPECT_EQ(found->finish.reason, expected.finish.reason);
  EXPECT_EQ(found->finish.stop, expected.finish.stop);
  EXPECT_EQ(found->finish.usage.prompt_tokens, expected.finish.usage.prompt_tokens);
  EXPECT_EQ(found->finish.usage.completion_tokens, expected.finish.usage.completion_tokens);
  EXPECT_EQ(found->finish.usage.reasoning_tokens, expected.finish.usage.reasoning_tokens);
  EXPECT_EQ(found->prompt_logprobs, expected.prompt_logprobs);
  const Usage& usage = found->finish.usage;
  EXPECT_GE(usage.cached_tokens + usage.computed_tokens,
            usage.prompt_tokens + usage.completion_tokens - 1);
}

// The demo behind a queue of one, so that every longer list is longer than the queue.
class LlmTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto demo = LLM::open(
        "demo", {.num_threads = 1, .max_num_seqs = 4, .max_queue = 0, .log = {}, .progress = {}});
    ASSERT_TRUE(demo) << demo.error().message;
    demo_ = new LLM(*std::move(demo));
  }
  static void TearDownTestSuite() {
    delete demo_;
    demo_ = nullptr;
  }

  static LLM* demo_;
};
LLM* LlmTest::demo_ = nullptr;

TEST_F(LlmTest, EachAnswerIsThatOfItsRequestAloneInTheOrderOfTheRequests) {
  std::vector<Request> requests;
  for (size_t i = 0; i < kCountries.size(); ++i) {
    Request request;
    if (i % 3 == 0) request.prompt = question(kCountries[i], i % 2 == 0 ? "enabled" : "disabled");
    if (i % 3 == 1) request.prompt = TextPrompt{"The capital of " + kCountries[i] + " is", false};
    if (i % 3 == 2) request.prompt = TokenPrompt{{298, 275, static_cast<int32_t>(300 + i)}};
    request.sampling.temperature = 0.1 * static_cast<double>(i);
    request.sampling.seed = 100 + i;
    request.max_tokens = i % 4 == 0 ? 20 : static_cast<int32_t>(i);
    if (i % 2 == 0) request.stop = {"is"};
    if (i == 4) request.prompt_logprobs = 2;
    requests.push_back(request);
  }
  const auto engine = Engine::open("demo", {.num_threads = 1, .log = {}, .progress = {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto answers = demo_->generate(requests);
  ASSERT_EQ(answers.size(), requests.size());
  EXPECT_EQ(answers[4]->prompt_logprobs.size() + 1, answers[4]->prompt_ids.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal(answers[i], alone(**engine, requests[i]));
  }
}

TEST_F(LlmTest, EachChoiceIsTheAnswerOfItsSeedAlone) {
  std::vector<Request> requests;
  for (int32_t n = 1; n <= 5; n += 2) {
    Request request;
    request.prompt = question("Italy", "enabled");
    request.sampling.temperature = 20;
    request.sampling.seed = 40 + static_cast<uint64_t>(n);
    request.max_tokens = 12;
    request.logprobs = 2;
    request.n = n;
    requests.push_back(request);
  }
  const auto engine = Engine::open("demo", {.num_threads = 1, .log = {}, .progress = {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto answers = demo_->generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    ASSERT_EQ(answers[i]->others.size() + 1, static_cast<size_t>(requests[i].n));
    expect_equal(answers[i], alone(**engine, requests[i]));
    for (const Choice& choice : answers[i]->others) {
      Request one = requests[i];
      one.sampling.seed = choice.finish.seed;
      const Generation expected = alone(**engine, one);
      EXPECT_EQ(choice.ids, expected.ids);
      EXPECT_EQ(choice.text, expected.text);
      EXPECT_EQ(choice.details.size(), choice.ids.size());
      EXPECT_NE(choice.finish.seed, answers[i]->seed);
      EXPECT_NE(choice.ids, answers[i]->ids) << "at this temperature they differ";
    }
  }
}

TEST_F(LlmTest, ARefusedRequestLeavesTheOthers) {
  std::vector<Request> requests(5, ids_request({5, 6}, 2));
  requests[0].prompt = TokenPrompt{};
  requests[2].sampling.temperature = -1;
  requests[4].max_tokens = 0;
  GenerateProgress last;
  Watch watch;
  watch.on_progress = [&](const GenerateProgress& progress) {
    EXPECT_GE(progress.num_finished, last.num_finished);
    EXPECT_GE(progress.num_tokens, last.num_tokens);
    last = progress;
    return true;
  };
  const auto answers = demo_->generate(requests, watch);
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_EQ(answers[0].error().field, "prompt");
  EXPECT_EQ(answers[2].error().field, "temperature");
  EXPECT_EQ(answers[4].error().field, "max_tokens");
  for (const size_t i : {1, 3}) {
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_EQ(answers[i]->finish.reason, FinishReason::kLength);
  }
  EXPECT_EQ(last.num_finished, 5U);
  EXPECT_EQ(last.num_requests, 5U);
  EXPECT_EQ(last.num_tokens, 4);
}

TEST_F(LlmTest, MorePromptsThanTheQueueHolds) {
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 30; ++i) prompts.push_back({300 + i % 10});
  const auto answers = demo_->generate_ids(prompts, greedy(2));
  ASSERT_EQ(answers.size(), prompts.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_EQ(answers[i]->prompt_ids, prompts[i]);
    EXPECT_EQ(answers[i]->ids, answers[i % 10]->ids);
  }
}

TEST_F(LlmTest, ASeedHoldsForEachPromptAndADrawnOneIsTold) {
  Request like;
  like.sampling.temperature = 1.5;
  like.max_tokens = 6;
  const std::vector<std::vector<int32_t>> same(3, {5, 6});
  const auto drawn = demo_->generate_ids(same, like);
  std::set<uint64_t> seeds;
  for (const auto& answer : drawn) seeds.insert(answer->seed);
  EXPECT_EQ(seeds.size(), 3U);
  like.sampling.seed = drawn[1]->seed;
  for (const auto& answer : demo_->generate_ids(same, like)) expect_equal(answer, *drawn[1]);
}

TEST_F(LlmTest, EventsAddUpToTheAnswersOnTheCallersThread) {
  std::vector<ChatPrompt> prompts;
  for (size_t i = 0; i < 3; ++i) prompts.push_back(question(kCountries[i], "enabled"));
  std::vector<Generation> seen(prompts.size());
  std::vector<int> num_events(prompts.size());
  Watch watch;
  watch.on_event = [&, caller = std::this_thread::get_id()](size_t index, const Event& event) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    Generation& answer = seen.at(index);
    answer.ids.insert(answer.ids.end(), event.ids.begin(), event.ids.end());
    answer.text += event.text;
    answer.reasoning += event.reasoning;
    if (event.finish) answer.finish = *event.finish;
    ++num_events[index];
    return true;
  };
  const auto answers = demo_->chat(prompts, greedy(200), watch);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_EQ(answers[i]->text, seen[i].text);
    EXPECT_EQ(answers[i]->reasoning, seen[i].reasoning);
    EXPECT_EQ(answers[i]->ids, seen[i].ids);
    EXPECT_EQ(answers[i]->finish.usage.completion_tokens, seen[i].finish.usage.completion_tokens);
    EXPECT_EQ(answers[i]->finish.reason, FinishReason::kStop);
    EXPECT_FALSE(answers[i]->reasoning.empty());
    EXPECT_NE(answers[i]->text.find(kCapitals[i]), std::string::npos) << answers[i]->text;
    EXPECT_GT(num_events[i], 3) << "events come while it runs";
  }
}

TEST_F(LlmTest, ACallbackStopsTheCall) {
  std::vector<Request> requests(50, ids_request({5, 6, 7}, 3000));
  requests[0].max_tokens = 1;
  size_t num_after_stop = 0;
  bool stopped = false;
  Watch watch;
  watch.on_event = [&](size_t index, const Event&) {
    if (stopped) ++num_after_stop;
    stopped = stopped || index == 2;
    return !stopped;
  };
  watch.on_progress = [&](const GenerateProgress&) {
    if (stopped) ++num_after_stop;
    return true;
  };
  const auto answers = demo_->generate(requests, watch);
  EXPECT_EQ(num_after_stop, 0U);
  ASSERT_EQ(answers.size(), requests.size());
  for (const auto& answer : answers) ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answers[0]->finish.reason, FinishReason::kLength) << "had ended before";
  const auto is_cancelled = [](const auto& answer) {
    return answer->finish.reason == FinishReason::kCancelled;
  };
  EXPECT_GT(std::ranges::count_if(answers, is_cancelled), 40) << "few had ended by themselves";
  EXPECT_FALSE(answers[2]->ids.empty()) << "what had come is kept";
  EXPECT_EQ(answers[2]->prompt_ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_TRUE(answers[49]->prompt_ids.empty()) << "never begun";

  watch = {};
  watch.on_progress = [](const GenerateProgress& progress) { return progress.num_finished == 0; };
  const auto others = demo_->generate(requests, watch);
  EXPECT_EQ(others[0]->finish.reason, FinishReason::kLength);
  EXPECT_EQ(others[49]->finish.reason, FinishReason::kCancelled);
}

TEST_F(LlmTest, WhatACallbackThrowsLeavesTheCall) {
  Watch watch;
  watch.on_event = [](size_t, const Event&) -> bool { throw std::runtime_error("odd caller"); };
  const std::vector<Request> requests(10, ids_request({5, 6, 7}, 3000));
  EXPECT_THROW((void)demo_->generate(requests, watch), std::runtime_error);
  EXPECT_TRUE(demo_->generate_ids({{5}}, greedy(1))[0]) << "the next call is not behind it";
}

TEST_F(LlmTest, ShortForms) {
  const auto texts = demo_->generate_texts({"The capital of Italy is"}, greedy(8));
  ASSERT_TRUE(texts.at(0)) << texts[0].error().message;
  EXPECT_EQ(texts[0]->text, " Rome.");
  EXPECT_EQ(texts[0]->prompt_ids[0], 0) << "the token that begins a text";
  const auto ids = demo_->generate_ids({texts[0]->prompt_ids}, greedy(8));
  expect_equal(ids.at(0), [&] {
    Generation expected = *texts[0];
    expected.seed = ids[0]->seed;
    return expected;
  }());

  ChatPrompt conversation = question("France");
  const auto first = demo_->chat(conversation, greedy(50));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->text, "The capital of France is Paris.");
  conversation.messages.push_back({"assistant", {first->text}, first->reasoning});
  conversation.messages.push_back(question("Japan").messages[0]);
  const auto second = demo_->chat(conversation, greedy(50));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_GT(second->prompt_ids.size(), first->prompt_ids.size() + first->ids.size());
  conversation.messages[0].role = "wizard";
  EXPECT_EQ(demo_->chat(conversation).error().field, "messages[0].role");

  EXPECT_TRUE(demo_->generate({}).empty());
  EXPECT_EQ(demo_->model().name, "demo");
}

TEST_F(LlmTest, CallsFromSeveralThreadsShareTheQueue) {
  const std::vector<std::vector<int32_t>> prompts(5, {5, 6});
  const auto expected = demo_->generate_ids({prompts[0]}, greedy(3));
  std::vector<std::vector<Result<Generation>>> found(3);
  {
    std::vector<std::jthread> threads;
    for (auto& answers : found) {
      threads.emplace_back([&] { answers = demo_->generate_ids(prompts, greedy(3)); });
    }
  }
  for (const auto& answers : found) {
    ASSERT_EQ(answers.size(), prompts.size());
    for (const auto& answer : answers) {
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_EQ(answer->ids, expected[0]->ids);
    }
  }
}

TEST(Llm, OpenRefusesWhatEngineRefuses) {
  EXPECT_EQ(LLM::open("/nowhere/at/all").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(LLM::open("demo", {.max_queue = -1, .log = {}, .progress = {}}).error().field,
            "max_queue");
  EXPECT_EQ(LLM::open("demo", {.max_num_seqs = 0, .log = {}, .progress = {}}).error().field,
            "max_num_seqs");
}

TEST(Llm, ADrainedEngineRefuses) {
  auto llm = LLM::open("demo", {.num_threads = 1, .log = {}, .progress = {}});
  ASSERT_TRUE(llm) << llm.error().message;
  llm->engine().drain(0ms);
  const auto answers = llm->generate_ids({{5}, {6}}, greedy(1));
  for (const auto& answer : answers) EXPECT_EQ(answer.error().code, ErrorCode::kCancelled);
}

// An engine for what the demo does not do: to lose its thread, to fail a request, to be full.
// Requests are of ids; the first id is what becomes of them.
class OddEngine : public Engine {
 public:
  static constexpr int32_t kAnswers = 0;  // at once: its prompt
  static constexpr int32_t kIsSilent = 1;
  static constexpr int32_t kFails = 2;
  static constexpr int32_t kBreaksTheEngine = 3;  // and is silent
  static constexpr int32_t kFailsLate = 4;        // breaks the engine when read, then fails

  explicit OddEngine(int max_live, int num_refusals = 0)
      : max_live_(max_live), num_refusals_(num_refusals) {}

  const ModelInfo& model() const override { return info_; }
  std::string token_bytes(int32_t) const override { return ""; }
  Result<std::vector<int32_t>> encode(Prompt prompt) const override {
    return std::get<TokenPrompt>(prompt).ids;
  }
  Result<std::string> decode(const std::vector<int32_t>&) const override { return std::string(); }
  EngineStats stats() const override { return {}; }
  void reset_prefix_cache() override {}
  Result<void> sleep(SleepLevel, bool) override { return {}; }
  void wake_up() override {}
  void log_state() override {}
  Result<void> start_profile() override { return {}; }
  Result<std::function<std::string()>> stop_profile() override {
    return std::function<std::string()>([] { return std::string(); });
  }
  bool healthy() const override { return healthy_; }
  void drain(std::chrono::milliseconds) override {}

  Result<std::unique_ptr<Stream>> submit(Request request, std::function<void()> ready) override {
    if (!healthy_) return Error{ErrorCode::kCancelled, "the engine is shutting down", ""};
    if (num_live_ == max_live_ || num_refusals_-- > 0) {
      return Error{ErrorCode::kOverloaded, "full", ""};
    }
    most_live_ = std::max(most_live_, ++num_live_);
    auto stream = std::make_unique<OddStream>(*this, std::get<TokenPrompt>(request.prompt).ids);
    const int32_t fate = stream->prompt_ids()[0];
    if (fate == kBreaksTheEngine) healthy_ = false;
    if (fate == kAnswers || fate == kFails || fate == kFailsLate) ready();
    return std::unique_ptr<Stream>(std::move(stream));
  }

  int most_live() const { return most_live_; }
  int num_live() const { return num_live_; }

 private:
  class OddStream : public Stream {
   public:
    OddStream(OddEngine& engine, std::vector<int32_t> ids)
        : engine_(engine), ids_(std::move(ids)) {}
    ~OddStream() override { --engine_.num_live_; }

    std::optional<Event> poll() override {
      if (ids_[0] == kIsSilent || ids_[0] == kBreaksTheEngine) return std::nullopt;
      if (ids_[0] == kFailsLate && std::exchange(engine_.healthy_, false)) return std::nullopt;
      Event event;
      event.ids = ids_;
      event.finish.emplace();
      if (ids_[0] != kAnswers) {
        event.finish->reason = FinishReason::kError;
        event.finish->error = Error{ErrorCode::kResourceExhausted, "out of memory in a step", ""};
      }
      return event;
    }
    std::optional<Event> wait(std::chrono::milliseconds) override { return poll(); }
    void cancel() override {}
    const std::vector<int32_t>& prompt_ids() const override { return ids_; }
    uint64_t seed() const override { return 7; }
    int32_t num_choices() const override { return 1; }

   private:
    OddEngine& engine_;
    std::vector<int32_t> ids_;
  };

  ModelInfo info_;
  const int max_live_;
  int num_refusals_;
  int num_live_ = 0;
  int most_live_ = 0;
  bool healthy_ = true;
};

TEST(Llm, ThousandsOfRequestsGoThroughABoundedWindow) {
  for (const int max_live : {1, 3, 1000}) {
    auto engine = std::make_unique<OddEngine>(max_live);
    const OddEngine& odd = *engine;
    LLM llm(std::move(engine), 16);
    std::vector<std::vector<int32_t>> prompts;
    for (int32_t i = 0; i < 5000; ++i) prompts.push_back({OddEngine::kAnswers, i});
    const auto answers = llm.generate_ids(prompts);
    for (size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_TRUE(answers[i]);
      ASSERT_EQ(answers[i]->ids, prompts[i]);
    }
    EXPECT_EQ(odd.most_live(), std::min(max_live, 16));
    EXPECT_EQ(odd.num_live(), 0);
  }
}

TEST(Llm, AQueueThatOthersFillIsTriedAgain) {
  LLM llm(std::make_unique<OddEngine>(8, /*num_refusals=*/5));
  EXPECT_TRUE(llm.generate_ids({{OddEngine::kAnswers}})[0]);
}

TEST(Llm, AFaultEndsEveryRequestThatHasNotEnded) {
  for (const int max_live : {2, 4, 100}) {
    LLM llm(std::make_unique<OddEngine>(max_live));
    std::vector<std::vector<int32_t>> prompts(50, {OddEngine::kIsSilent});
    prompts[0] = {OddEngine::kAnswers};
    prompts[1] = {OddEngine::kFails};
    prompts[3] = {OddEngine::kBreaksTheEngine};
    size_t num_finished = 0;
    Watch watch;
    watch.on_progress = [&](const GenerateProgress& progress) {
      num_finished = progress.num_finished;
      return true;
    };
    const auto answers = llm.generate_ids(prompts, {}, watch);
    EXPECT_TRUE(answers[0]);
    EXPECT_EQ(answers[1].error().code, ErrorCode::kResourceExhausted) << "its own error";
    for (size_t i = 2; i < answers.size(); ++i) {
      ASSERT_FALSE(answers[i]) << i;
      EXPECT_EQ(answers[i].error().code, ErrorCode::kInternal) << answers[i].error().message;
    }
    EXPECT_EQ(num_finished, 50U);
    EXPECT_EQ(llm.generate_ids({{OddEngine::kAnswers}})[0].error().code, ErrorCode::kInternal);
  }
}

TEST(Llm, AnErrorThatComesWithTheFaultIsKept) {
  LLM llm(std::make_unique<OddEngine>(2));
  const auto answers =
      llm.generate_ids({{OddEngine::kIsSilent}, {OddEngine::kFailsLate}, {OddEngine::kAnswers}});
  EXPECT_EQ(answers[0].error().code, ErrorCode::kInternal);
  EXPECT_EQ(answers[1].error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(answers[2].error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace stoker
