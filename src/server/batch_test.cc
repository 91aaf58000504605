// Batches over a scripted engine: what is written for which line, in which order, and what a run
// does when it is stopped, begun again, or has no room.
#include "server/batch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>
#include <set>
#include <thread>

#include "base/json.h"
#include "server/batch_fixture.h"
#include "server/scripted_engine.h"

namespace stoker {
namespace {

using std::chrono_literals::operator""ms;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string request(const std::string& custom_id, const std::string& body,
                    const std::string& url = "/v1/completions") {
  return R"({"custom_id":")" + custom_id + R"(","method":"POST","url":")" + url + R"(","body":)" +
         body + "}\n";
}

std::string prompt(const std::string& text) {
  return R"({"prompt":")" + text + "\"}";
}

std::string text_of(const Request& request) {
  return std::get<TextPrompt>(request.prompt).text;
}

// "slow" takes its time, "never" has no end, "wrong" is refused, "fails" fails, the others end at
// once.
Script by_prompt(const Request& request) {
  const std::string text = text_of(request);
  Script script = script_of({"Hello."});
  if (text == "slow") script.steps.front().delay = 100ms;
  if (text == "never") script.steps.resize(1);
  if (text == "wrong") {
    script.refusal = Error{ErrorCode::kInvalidArgument, "prompt: expected less", "prompt"};
  }
  if (text == "fails") {
    Event end = finish_event(FinishReason::kError, 0);
    end.finish->error = Error{ErrorCode::kInternal, "a fault", ""};
    script.steps = {{end}};
  }
  return script;
}

class BatchTest : public FolderTest {
 protected:
  void start(ScriptedEngine::Writer writer) {
    engine_ = std::make_unique<ScriptedEngine>(std::move(writer));
  }

  // A whole run over the input; what it wrote is in "out".
  Result<void> run(const std::string& input, BatchOptions options = {}) {
    write("in", input);
    const int descriptor = open(path("in").c_str(), O_RDONLY);
    const Result<void> result = run_over(descriptor, std::move(options));
    close(descriptor);
    return result;
  }

  Result<void> run_over(int descriptor, BatchOptions options = {}) {
    auto out = open_output("out");
    if (!out) return out.error();
    Batch batch(*engine_, descriptor, *out, std::move(options));
    Result<void> result = batch.run();
    counts_ = batch.counts();
    EXPECT_EQ(engine_->num_live_streams(), 0);
    return result;
  }

  // The lines of the output, each of which must be whole.
  std::vector<Json> lines() const {
    std::vector<Json> found;
    const std::string content = read("out");
    EXPECT_TRUE(content.empty() || content.back() == '\n');
    for (size_t at = 0; at < content.size();) {
      const size_t end = content.find('\n', at);
      auto json = Json::parse(content.substr(at, end - at));
      EXPECT_TRUE(json.has_value());
      if (json) found.push_back(*std::move(json));
      at = end + 1;
    }
    return found;
  }

  // custom_id and status of each line: "a 200"; the code of the error where there is no response.
  std::vector<std::string> statuses() const {
    std::vector<std::string> found;
    for (const Json& line : lines()) {
      const Json* response = line.find("response");
      const Json* outcome =
          response->is_null() ? line.find("error")->find("code") : response->find("status_code");
      found.push_back(line.find("custom_id")->as_string() + " " + outcome->as_string());
    }
    return found;
  }

  std::string message_of_line(size_t i) const {
    const Json line = lines().at(i);
    const Json* response = line.find("response");
    const Json* error =
        response->is_null() ? line.find("error") : response->find("body")->find("error");
    return error->find("message")->as_string();
  }

  std::unique_ptr<ScriptedEngine> engine_;
  BatchCounts counts_;
};

std::string usage_json_of(int prompt_tokens, int completion_tokens) {
  const std::string prompt = std::to_string(prompt_tokens);
  return R"({"prompt_tokens":)" + prompt + R"(,"completion_tokens":)" +
         std::to_string(completion_tokens) + R"(,"total_tokens":)" +
         std::to_string(prompt_tokens + completion_tokens) +
         R"(,"prompt_tokens_details":{"cached_tokens":0},)"
         R"("completion_tokens_details":{"reasoning_tokens":0},)"
         R"("prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":)" +
         prompt + "}";
}

TEST_F(BatchTest, TheShapeOfAnAnswer) {
  start(hello);
  ASSERT_TRUE(run(request("a", R"({"prompt":"x","request_id":"r1"})")).has_value());
  const std::vector<Json> found = lines();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].find("id")->as_string(), testing::MatchesRegex("batch_req_[0-9a-f]{32}"));
  Json line = found[0];
  const std::string created = line.find("response")->find("body")->find("created")->as_string();
  line.set("id", Json::string("ID"));
  EXPECT_EQ(line.dump(),
            R"({"id":"ID","custom_id":"a","response":{"status_code":200,"request_id":"r1","body":)"
            R"({"id":"cmpl-r1","object":"text_completion","created":)" +
                created +
                R"(,"model":"scripted","system_fingerprint":"stoker-test","choices":[{"index":0,)"
                R"("text":"Hello.","logprobs":null,"finish_reason":"stop","stop_reason":null}],)"
                R"("usage":)" +
                usage_json_of(3, 3) + R"(,"seed":7}},"error":null})");
}

TEST_F(BatchTest, ChatAndSeveralPrompts) {
  start(hello);
  ASSERT_TRUE(run(request("chat", R"({"messages":[{"role":"user","content":"q"}]})",
                          "/v1/chat/completions") +
                  request("two", R"({"prompt":["p","q"]})"))
                  .has_value());
  ASSERT_THAT(statuses(), UnorderedElementsAre("chat 200", "two 200"));
  for (const Json& line : lines()) {
    const Json* body = line.find("response")->find("body");
    const bool is_chat = line.find("custom_id")->as_string() == "chat";
    EXPECT_EQ(body->find("object")->as_string(), is_chat ? "chat.completion" : "text_completion");
    EXPECT_EQ(body->find("choices")->items().size(), is_chat ? 1u : 2u);
  }
  EXPECT_EQ(counts_.completion_tokens, 9);
  EXPECT_EQ(counts_.prompt_tokens, 9);
}

TEST_F(BatchTest, WrongLinesStandAlone) {
  start(by_prompt);
  BatchOptions options;
  options.max_line_bytes = 300;
  const std::string input =
      request("first", prompt("p")) + "\n  \r\nnonsense\n" + request("", prompt("p")) +
      request("first", prompt("p")) + request("url", "{}", "/v1/embeddings") +
      request("none", "{}") + request("stream", R"({"prompt":"p","stream":true})") +
      request("field", R"({"prompt":"p","suffix":"s"})") +
      request("model", R"({"prompt":"p","model":"x"})") + request("wrong", prompt("wrong")) +
      request("fails", prompt("fails")) + request("long", prompt(std::string(300, 'x'))) +
      request("last", prompt("p"));
  ASSERT_TRUE(run(input, options).has_value());
  EXPECT_THAT(statuses(), UnorderedElementsAre("first 200", " invalid_line", " invalid_line",
                                               "first duplicate_custom_id", "url 404", "none 400",
                                               "stream 400", "field 400", "model 404", "wrong 400",
                                               "fails 500", " line_too_long", "last 200"));
  std::set<std::string> messages;
  for (size_t i = 0; i < lines().size(); ++i) {
    if (statuses()[i].find("200") == std::string::npos) messages.insert(message_of_line(i));
  }
  EXPECT_THAT(messages, testing::Contains("line 6: expected a custom_id that no line before has, "
                                          "found \"first\""));
  EXPECT_THAT(messages, testing::Contains("line 14: expected at most 300 bytes, found more"));
  EXPECT_THAT(messages, testing::Contains("prompt: expected less"));
  EXPECT_THAT(messages, testing::Contains(HasSubstr("line 4: not JSON")));
  EXPECT_EQ(counts_.num_taken, 13);
  EXPECT_EQ(counts_.num_written, 13);
  EXPECT_EQ(counts_.num_failed, 11);
  EXPECT_EQ(counts_.num_passing, 1);
}

TEST_F(BatchTest, TheLastLineNeedsNoLineFeed) {
  start(hello);
  std::string input = request("a", prompt("p")) + request("b", prompt("p"));
  input.pop_back();
  ASSERT_TRUE(run(input).has_value());
  EXPECT_THAT(statuses(), UnorderedElementsAre("a 200", "b 200"));
  start(hello);
  EXPECT_TRUE(run("").has_value());
}

TEST_F(BatchTest, AnAnswerIsWrittenWhenItIsWhole) {
  start(by_prompt);
  ASSERT_TRUE(run(request("a", prompt("slow")) + request("b", prompt("p"))).has_value());
  EXPECT_THAT(statuses(), ElementsAre("b 200", "a 200"));
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Also after the engine has said something, and with lines that wait for room.
TEST_F(BatchTest, WaitingCostsNothing) {
  start([](const Request&) {
    Script script = script_of({"a", "b"});
    script.steps[1].delay = 400ms;
    return script;
  });
  BatchOptions options;
  options.max_in_flight = 1;
  const double before = thread_cpu_seconds();
  ASSERT_TRUE(run(request("a", prompt("p")) + request("b", prompt("p")), options).has_value());
  EXPECT_LT(thread_cpu_seconds() - before, 0.2);
}

TEST_F(BatchTest, SeedsComeFromTheCustomId) {
  start(hello);
  BatchOptions options;
  options.seed = 5;
  ASSERT_TRUE(run(request("a", prompt("1")) + request("b", R"({"prompt":"2","seed":-3})") +
                      request("c", R"({"prompt":["3","4"]})"),
                  options)
                  .has_value());
  std::map<std::string, uint64_t> seeds;
  for (const Request& each : engine_->requests()) seeds[text_of(each)] = *each.sampling.seed;
  EXPECT_EQ(seeds["1"], batch_seed("a", 5));
  EXPECT_EQ(seeds["2"], static_cast<uint64_t>(-3));
  EXPECT_EQ(seeds["3"], batch_seed("c", 5));
  EXPECT_EQ(seeds["4"], batch_seed("c", 5));
}

TEST_F(BatchTest, ARunGoesOn) {
  start(by_prompt);
  write("out", done("a") + done("b", 503) + done("c", 400) + done("d").substr(0, 50));
  std::string input;
  for (const char* id : {"e", "d", "c", "b", "a"}) input += request(id, prompt("p"));
  ASSERT_TRUE(run(input).has_value());
  EXPECT_THAT(statuses(), UnorderedElementsAre("a 200", "c 400", "b 200", "d 200", "e 200"));
  EXPECT_EQ(engine_->requests().size(), 3u);
  EXPECT_EQ(counts_.num_skipped, 2);
  ASSERT_TRUE(run(input).has_value());
  EXPECT_EQ(engine_->requests().size(), 3u);
}

// A duplicate's error must not pass for the answer of the request before it.
TEST_F(BatchTest, ADuplicateIsToldByEachRun) {
  start(hello);
  const std::string input = request("a", prompt("p")) + request("a", prompt("q"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run(input).has_value());
    EXPECT_THAT(statuses(), UnorderedElementsAre("a 200", "a duplicate_custom_id"));
  }
  EXPECT_EQ(engine_->requests().size(), 1u);
}

TEST_F(BatchTest, NoMoreLinesThanTheWindowRun) {
  std::atomic<int> num_most = 0;
  start([](const Request&) {
    Script script = script_of({"x"});
    script.steps.front().delay = 2ms;
    return script;
  });
  BatchOptions options;
  options.max_in_flight = 3;
  options.progress_period = 0ms;
  options.progress = [&](const BatchCounts& counts) {
    num_most = std::max<int>(num_most, static_cast<int>(counts.num_running));
  };
  std::string input;
  for (int i = 0; i < 50; ++i) input += request(std::to_string(i), prompt("p"));
  ASSERT_TRUE(run(input, options).has_value());
  EXPECT_EQ(lines().size(), 50u);
  EXPECT_EQ(num_most, 3);
}

// Where the engine has no room for all prompts of a body, the rest waits, and so do the lines
// behind it.
TEST_F(BatchTest, WaitsForRoomInTheEngine) {
  int num_submitted = 0;
  start([&num_submitted](const Request& request) {
    Script script = hello(request);
    if (++num_submitted % 4 == 0) script.refusal = Error{ErrorCode::kOverloaded, "full", ""};
    return script;
  });
  BatchOptions options;
  options.retry_period = 5ms;
  std::string prompts = R"({"prompt":["p")";
  for (int i = 0; i < 20; ++i) prompts += R"(,"p")";
  ASSERT_TRUE(
      run(request("a", prompt("p")) + request("many", prompts + "]}") + request("b", prompt("p")),
          options)
          .has_value());
  EXPECT_THAT(statuses(), UnorderedElementsAre("a 200", "many 200", "b 200"));
  EXPECT_EQ(engine_->requests().size(), 23u);
}

TEST_F(BatchTest, AnEngineThatNeverHasRoom) {
  start([](const Request&) {
    Script script;
    script.refusal = Error{ErrorCode::kOverloaded, "full", ""};
    return script;
  });
  BatchOptions options;
  options.retry_period = 1ms;
  ASSERT_TRUE(run(request("a", prompt("p")), options).has_value());
  EXPECT_THAT(statuses(), ElementsAre("a 429"));
  EXPECT_EQ(counts_.num_passing, 1);
}

TEST_F(BatchTest, StopsWhenItIsTold) {
  start(by_prompt);
  const int stop = eventfd(0, 0);
  BatchOptions options;
  options.stop_descriptor = stop;
  options.max_in_flight = 2;
  std::jthread teller([&] {
    EXPECT_TRUE(engine_->wait_for_requests(3));
    eventfd_write(stop, 1);
  });
  const auto result = run(request("a", prompt("p")) + request("b", prompt("never")) +
                              request("c", prompt("never")) + request("d", prompt("p")),
                          options);
  teller.join();
  close(stop);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(statuses(), ElementsAre("a 200"));
  EXPECT_EQ(engine_->num_cancelled(), 2);
}

TEST_F(BatchTest, AnEngineThatStops) {
  start(by_prompt);
  std::jthread teller([&] {
    EXPECT_TRUE(engine_->wait_for_requests(2));
    engine_->set_healthy(false);
  });
  const auto result = run(request("a", prompt("never")) + request("b", prompt("never")));
  teller.join();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInternal);
  EXPECT_EQ(engine_->num_cancelled(), 2);
  EXPECT_EQ(read("out"), "");
}

TEST_F(BatchTest, AnEngineThatIsDrained) {
  start(by_prompt);
  engine_->drain(0ms);
  const auto result = run(request("a", prompt("p")));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(read("out"), "");
}

// Answers come out while the input is still open.
TEST_F(BatchTest, APipeAsInput) {
  start(hello);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::jthread writer([&] {
    const std::string first = request("a", prompt("p")), second = request("b", prompt("p"));
    const std::string text = first + second.substr(0, 20);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    for (int i = 0; i < 1000 && read("out").empty(); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_THAT(read("out"), HasSubstr(R"("custom_id":"a")"));
    const std::string rest = second.substr(20);
    EXPECT_EQ(::write(ends[1], rest.data(), rest.size()), static_cast<ssize_t>(rest.size()));
    close(ends[1]);
  });
  const auto result = run_over(ends[0]);
  writer.join();
  close(ends[0]);
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(statuses(), ElementsAre("a 200", "b 200"));
}

TEST_F(BatchTest, AFailedInputOrOutput) {
  start(hello);
  constexpr int kNotOpen = 1'000'000;
  EXPECT_EQ(run_over(kNotOpen).error().code, ErrorCode::kIo);
  const int folder = open(path("").c_str(), O_RDONLY);
  EXPECT_EQ(run_over(folder).error().code, ErrorCode::kIo);
  close(folder);
  ASSERT_EQ(symlink("/dev/full", path("full").c_str()), 0);
  write("in", request("a", prompt("p")));
  const int input = open(path("in").c_str(), O_RDONLY);
  auto out = open_output("full");
  ASSERT_TRUE(out.has_value());
  Batch batch(*engine_, input, *out, {});
  const auto result = batch.run();
  close(input);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_EQ(batch.counts().num_written, 0);
}

TEST_F(BatchTest, ManyLines) {
  start(hello);
  std::string input;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    input += request(std::to_string(i), prompt("p"));
    expected.push_back(std::to_string(i) + " 200");
  }
  ASSERT_TRUE(run(input).has_value());
  EXPECT_THAT(statuses(), testing::UnorderedElementsAreArray(expected));
}

TEST_F(BatchTest, UnknownFieldsAreLoggedOnce) {
  start(hello);
  std::vector<std::string> log;
  BatchOptions options;
  options.log = [&](LogLevel, std::string_view line) { log.emplace_back(line); };
  ASSERT_TRUE(
      run(request("a", R"({"prompt":"p","zebra":1})") + request("b", R"({"prompt":"p","zebra":1})"),
          options)
          .has_value());
  EXPECT_THAT(log, ElementsAre(R"(request field ignored name="zebra")"));
}

TEST_F(BatchTest, FinishesWhatRuns) {
  std::atomic<bool> is_late{false};
  start([&is_late](const Request& request) {
    is_late = true;
    return by_prompt(request);
  });
  BatchOptions options;
  options.max_in_flight = 2;
  options.priority = 5;
  options.mode = [&is_late] { return is_late ? BatchMode::kFinish : BatchMode::kRun; };
  const std::string input =
      request("a", prompt("slow")) + request("b", prompt("slow")) + request("c", prompt("slow"));
  const auto result = run(input, std::move(options));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(statuses(), UnorderedElementsAre("a 200", "b 200"));
  for (const Request& asked : engine_->requests()) EXPECT_EQ(asked.priority, 5);
  ASSERT_TRUE(run(input).has_value());
  EXPECT_EQ(counts_.num_skipped, 2);
}

TEST_F(BatchTest, WhatASleepingEngineRefusesWaits) {
  std::atomic<int> num_refused{0};
  start([&num_refused](const Request& request) {
    Script script = by_prompt(request);
    if (++num_refused < 4) script.refusal = {ErrorCode::kResourceExhausted, "it sleeps", ""};
    return script;
  });
  std::atomic<int> num_asked{0};
  BatchOptions options;
  options.progress_period = 1ms;
  options.progress = [](const BatchCounts&) {};
  options.retry_period = 1ms;
  // Held when it was refused, and not when it is asked whether to go on.
  options.mode = [&num_asked] { return ++num_asked % 2 == 0 ? BatchMode::kHold : BatchMode::kRun; };
  ASSERT_TRUE(run(request("a", prompt("x")), std::move(options)).has_value());
  EXPECT_THAT(statuses(), ElementsAre("a 200"));
  EXPECT_EQ(num_refused, 4);
}

TEST_F(BatchTest, HoldsLinesBack) {
  start(by_prompt);
  std::atomic<int> num_asked{0};
  BatchOptions options;
  options.progress_period = 1ms;
  options.progress = [](const BatchCounts&) {};
  options.mode = [&] {
    EXPECT_TRUE(num_asked > 20 || engine_->requests().empty());
    return ++num_asked > 20 ? BatchMode::kRun : BatchMode::kHold;
  };
  ASSERT_TRUE(run(request("a", prompt("x")), std::move(options)).has_value());
  EXPECT_THAT(statuses(), ElementsAre("a 200"));
}

}  // namespace
}  // namespace stoker
