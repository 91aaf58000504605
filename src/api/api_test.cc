// The door with the real engine behind it: the demo model and the small one.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "stoker/engine.h"
#include "stoker/inspect.h"
#include "stoker/tokenize.h"
#include "stoker/trace.h"
#include "support/golden.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

const std::string kSmall = std::string(STOKER_SOURCE_DIR) + "/tests/data/small/checkpoint";

struct Answer {
  std::string text;
  std::string reasoning;
  std::vector<int32_t> ids;
  Finish finish;
};

Answer read_all(Stream& stream) {
  Answer answer;
  for (int i = 0; i < 6000; ++i) {
    auto event = stream.wait(10ms);
    if (!event) continue;
    answer.text += event->text;
    answer.reasoning += event->reasoning;
    answer.ids.insert(answer.ids.end(), event->ids.begin(), event->ids.end());
    if (event->finish) {
      answer.finish = *event->finish;
      return answer;
    }
  }
  ADD_FAILURE() << "a request never ended";
  return answer;
}

Request chat_request(const std::string& question, const std::string& thinking) {
  ChatPrompt prompt;
  prompt.messages.push_back({"user", {question}, ""});
  prompt.thinking = thinking;
  Request request;
  request.prompt = prompt;
  request.max_tokens = 200;
  return request;
}

Request id_request(std::vector<int32_t> ids, int32_t max_tokens) {
  Request request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = max_tokens;
  return request;
}

class ApiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto demo = Engine::open("demo", {.num_threads = 2, .log = {}, .progress = {}});
    ASSERT_TRUE(demo) << demo.error().message;
    demo_ = std::move(*demo).release();
  }
  static void TearDownTestSuite() {
    delete demo_;
    demo_ = nullptr;
  }

  static Answer ask(Request request) {
    auto stream = demo_->submit(std::move(request));
    if (!stream) {
      ADD_FAILURE() << stream.error().message;
      return {};
    }
    return read_all(**stream);
  }

  static Error refused(Request request) {
    auto stream = demo_->submit(std::move(request));
    if (stream) {
      ADD_FAILURE() << "was not refused";
      return {};
    }
    return stream.error();
  }

  static Engine* demo_;
};
Engine* ApiTest::demo_ = nullptr;

TEST_F(ApiTest, TheDemoKnowsTheCapitalOfFrance) {
  for (const std::string thinking : {"disabled", "enabled"}) {
    const Answer answer = ask(chat_request("What is the capital of France?", thinking));
    EXPECT_NE(answer.text.find("Paris"), std::string::npos) << answer.text;
    EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
    EXPECT_EQ(answer.reasoning.empty(), thinking == "disabled") << answer.reasoning;
    EXPECT_EQ(answer.finish.usage.completion_tokens, static_cast<int32_t>(answer.ids.size()));
    EXPECT_EQ(answer.finish.usage.reasoning_tokens > 0, thinking == "enabled");
    EXPECT_EQ(answer.text.find("<"), std::string::npos) << "no markup: " << answer.text;
    EXPECT_GE(answer.finish.timings.total, answer.finish.timings.first_token);
  }
}

TEST_F(ApiTest, ASeedGivesTheSameAnswerAgainAndADrawnOneIsTold) {
  Request request = chat_request("What is the capital of Italy?", "disabled");
  request.sampling.temperature = 1.5;
  auto stream = demo_->submit(request);
  ASSERT_TRUE(stream);
  const uint64_t seed = (*stream)->seed();
  EXPECT_LT(seed, uint64_t{1} << 53) << "a seed that every JSON client can send back";
  const Answer first = read_all(**stream);
  request.sampling.seed = seed;
  EXPECT_EQ(ask(request).ids, first.ids);
}

TEST_F(ApiTest, TextIsCutBeforeAStopString) {
  const Answer whole = ask(chat_request("What is the capital of France?", "disabled"));
  for (const std::string& stop :
       {std::string("Par"), std::string("ari"), whole.text.substr(3, 9)}) {
    Request request = chat_request("What is the capital of France?", "disabled");
    request.stop = {"never there", stop};
    const Answer cut = ask(request);
    EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
    EXPECT_EQ(cut.finish.reason, FinishReason::kStop);
    EXPECT_EQ(cut.finish.stop, stop);
    EXPECT_EQ(cut.ids,
              std::vector<int32_t>(whole.ids.begin(),
                                   whole.ids.begin() + static_cast<int64_t>(cut.ids.size())));
  }
}

TEST_F(ApiTest, MaxTokensIsLength) {
  Request request = chat_request("What is the capital of France?", "disabled");
  request.max_tokens = 2;
  const Answer answer = ask(request);
  EXPECT_EQ(answer.ids.size(), 2U);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
}

TEST_F(ApiTest, BadRequestsNameTheirField) {
  const int32_t vocab = demo_->model().vocab_size;
  const int32_t context = demo_->model().max_context_tokens;
  for (const int32_t id : {-1, vocab, INT32_MAX, INT32_MIN}) {
    const Error error = refused(id_request({1, id}, 1));
    EXPECT_EQ(error.field, "prompt");
    EXPECT_NE(error.message.find(std::to_string(id)), std::string::npos);
  }
  EXPECT_EQ(refused(id_request({4094}, 1)).code, ErrorCode::kUnsupported) << "the image token";
  EXPECT_EQ(refused(id_request({}, 1)).field, "prompt");
  EXPECT_EQ(refused(id_request(std::vector<int32_t>(static_cast<size_t>(context), 5), 1)).field,
            "prompt");
  EXPECT_EQ(refused(id_request({5}, context)).field, "max_tokens");
  EXPECT_EQ(refused(id_request({5}, 0)).field, "max_tokens");

  Request request = id_request({5}, 1);
  request.sampling.temperature = -1;
  EXPECT_EQ(refused(request).field, "temperature");
  request.sampling.temperature = std::nan("");
  EXPECT_EQ(refused(request).field, "temperature");
  request = id_request({5}, 1);
  request.sampling.top_p = 0;
  EXPECT_EQ(refused(request).field, "top_p");
  request = id_request({5}, 1);
  request.sampling.top_k = -2;
  EXPECT_EQ(refused(request).field, "top_k");
  request = id_request({5}, 1);
  request.stop = std::vector<std::string>(17, "a");
  EXPECT_EQ(refused(request).field, "stop");
  request.stop = {""};
  EXPECT_EQ(refused(request).field, "stop");

  request.stop = {};
  ChatPrompt chat;
  chat.messages.push_back({"wizard", {"hi"}, ""});
  request.prompt = chat;
  EXPECT_EQ(refused(request).field, "messages[0].role");
  request.prompt = ChatPrompt{};
  EXPECT_EQ(refused(request).field, "messages");
}

TEST_F(ApiTest, AnEmptyTextIsBosAndBosIsAddedOnce) {
  Request request;
  request.max_tokens = 1;
  request.prompt = TextPrompt{"", false};
  EXPECT_EQ((*demo_->submit(request))->prompt_ids(), (std::vector<int32_t>{0}));
  request.prompt = TextPrompt{"", true};
  EXPECT_EQ((*demo_->submit(request))->prompt_ids(), (std::vector<int32_t>{0}));
  request.prompt = TextPrompt{"<｜begin▁of▁sentence｜>a", true};
  const auto ids = (*demo_->submit(request))->prompt_ids();
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids[0], 0);
}

TEST_F(ApiTest, ALongPromptIsCutFromItsBeginning) {
  const auto length = [](const Request& request) {
    const auto stream = demo_->submit(request);
    EXPECT_TRUE(stream) << (stream ? "" : stream.error().message);
    return stream ? (*stream)->prompt_ids().size() : 0;
  };
  const auto context = static_cast<size_t>(demo_->model().max_context_tokens);
  Request request = id_request({}, 1);
  std::vector<int32_t> ids(context + 50);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(5 + i % 100);
  request.prompt = TokenPrompt{ids};
  EXPECT_EQ(refused(request).field, "prompt");
  request.truncate_prompt_tokens = 7;
  const auto cut = demo_->submit(request);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ((*cut)->prompt_ids(), std::vector<int32_t>(ids.end() - 7, ids.end()));
  request.truncate_prompt_tokens = -1;
  EXPECT_EQ(length(request), context - 1);
  request.max_tokens = 20;
  EXPECT_EQ(length(request), context - 20);
  request.max_tokens.reset();
  EXPECT_EQ(length(request), context - 1);
  request.max_tokens = static_cast<int32_t>(context);
  EXPECT_EQ(refused(request).field, "max_tokens");
  request.max_tokens = 5;
  request.prompt = TokenPrompt{{5, 6, 7}};
  EXPECT_EQ(length(request), 3U) << "short ones stay";
  request.truncate_prompt_tokens = 3;
  EXPECT_EQ(length(request), 3U);
  for (const int32_t wrong : {0, -2}) {
    request.truncate_prompt_tokens = wrong;
    EXPECT_EQ(refused(request).field, "truncate_prompt_tokens");
  }
  Request chat = chat_request("What is the capital of France?", "disabled");
  const std::vector<int32_t> whole = (*demo_->submit(chat))->prompt_ids();
  chat.truncate_prompt_tokens = 4;
  EXPECT_EQ((*demo_->submit(chat))->prompt_ids(),
            std::vector<int32_t>(whole.end() - 4, whole.end()));
}

TEST_F(ApiTest, CancelledAndDestroyedStreamsEnd) {
  Request request = id_request({5, 6, 7}, 3000);
  request.sampling.temperature = 1;
  auto stream = demo_->submit(request);
  ASSERT_TRUE(stream);
  (*stream)->cancel();
  EXPECT_TRUE(read_all(**stream).finish.reason == FinishReason::kCancelled);
  EXPECT_FALSE((*stream)->poll()) << "nothing comes after the last event";
  { const auto dropped = demo_->submit(request); }
  const Answer next = ask(chat_request("What is the capital of France?", "disabled"));
  EXPECT_NE(next.text.find("Paris"), std::string::npos);
}

TEST(Door, StreamsOutliveTheirEngine) {
  auto engine = Engine::open("demo", {.num_threads = 1, .log = {}, .progress = {}});
  ASSERT_TRUE(engine);
  std::vector<std::unique_ptr<Stream>> streams;  // some of them say end of text at once
  for (int32_t id = 5; id < 55; ++id) {
    auto stream = (*engine)->submit(id_request({id}, 4000));
    ASSERT_TRUE(stream);
    streams.push_back(*std::move(stream));
  }
  engine->reset();
  int num_cancelled = 0;
  for (const auto& stream : streams)
    num_cancelled += static_cast<int>(read_all(*stream).finish.reason == FinishReason::kCancelled);
  EXPECT_GT(num_cancelled, 0);
}

TEST(Door, OpenRefusesWhatIsNoModel) {
  EXPECT_EQ(Engine::open("/nowhere/at/all").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Engine::open("demo", {.num_threads = -1, .log = {}, .progress = {}}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(Engine::open("demo", {.max_num_seqs = 0, .log = {}, .progress = {}}).error().code,
            ErrorCode::kInvalidArgument);
}

class TokenlessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    std::filesystem::copy(kSmall, dir_);
    std::filesystem::remove(dir_ / "tokenizer.json");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("stoker_tokenless_" + std::to_string(::getpid()));
};

TEST_F(TokenlessTest, WithoutATokenizerTheEngramMapMustBeTheIdentity) {
  const auto engine = Engine::open(dir_.string());
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("engram_compressed_vocab_size"), std::string::npos)
      << engine.error().message;
}

TEST_F(TokenlessTest, IdsAloneRunWhereTheMapIsTheIdentity) {
  std::ifstream in(dir_ / "config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  const std::string key = "\"engram_compressed_vocab_size\": ";
  const size_t at = config.find(key) + key.size();
  config.replace(at, config.find_first_not_of("0123456789", at) - at, "704");
  std::ofstream(dir_ / "config.json") << config;
  const auto engine = Engine::open(dir_.string(), {.num_threads = 1, .log = {}, .progress = {}});
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_FALSE((*engine)->model().has_text);
  const auto stream = (*engine)->submit(id_request({5, 6, 7}, 8));
  ASSERT_TRUE(stream) << stream.error().message;
  const Answer answer = read_all(**stream);
  EXPECT_FALSE(answer.ids.empty());
  EXPECT_EQ(answer.text, "");
  Request text;
  text.prompt = TextPrompt{"hello", false};
  EXPECT_EQ((*engine)->submit(text).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ((*engine)->submit(chat_request("hello", "disabled")).error().code,
            ErrorCode::kUnsupported);
  Request stop = id_request({5}, 1);
  stop.stop = {"a"};
  EXPECT_EQ((*engine)->submit(stop).error().code, ErrorCode::kUnsupported);
}

TEST(Tokenize, RoundTripAndBadIds) {
  const auto ids = tokenize("demo", "What is <｜User｜> naïve?");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*detokenize("demo", *ids), "What is <｜User｜> naïve?");
  EXPECT_EQ(detokenize("demo", {1 << 30}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(tokenize("/nowhere", "a").error().code, ErrorCode::kNotFound);
}

TEST(Inspect, DescribesTheDemoAndItsProblemsAreNone) {
  const auto inspection = inspect("demo");
  ASSERT_TRUE(inspection) << inspection.error().message;
  EXPECT_EQ(inspection->name, "demo");
  EXPECT_TRUE(inspection->problems.empty()) << inspection->problems[0];
  int64_t parameters = 0;
  for (const CheckpointPart& part : inspection->parts) parameters += part.num_parameters;
  EXPECT_NEAR(static_cast<double>(parameters), 14.4e6, 0.05e6) << "its model card's figure";
  EXPECT_GT(inspection->max_tokens_in_memory, 0);
}

TEST(Trace, IsWrittenUnderTheGoldenNames) {
  const testing::GoldenFile golden("tests/data/small/golden/golden.safetensors");
  std::vector<int32_t> ids;
  for (const int64_t id : golden.i64("prompt.ids")) ids.push_back(static_cast<int32_t>(id));
  const auto out =
      std::filesystem::temp_directory_path() / ("stoker_trace_" + std::to_string(::getpid()));
  ASSERT_TRUE(write_trace(kSmall, ids,
                          {.chunks = {7}, .layers = true, .num_threads = 2, .progress = {}},
                          out.string()));
  const testing::GoldenFile written(std::filesystem::relative(out, STOKER_SOURCE_DIR).string());
  std::filesystem::remove(out);
  size_t num_tensors = 0;
  for (const auto& [name, entry] : golden.header().members()) {
    if (!name.starts_with("prompt.") || name == "prompt.spread") continue;
    EXPECT_EQ(written.shape(name), golden.shape(name)) << name;
    EXPECT_EQ(written.read<uint8_t>(name), golden.read<uint8_t>(name)) << name;
    ++num_tensors;
  }
  EXPECT_EQ(num_tensors, written.header().members().size());
  EXPECT_FALSE(write_trace(kSmall, {}, {}, out.string()));
  EXPECT_FALSE(write_trace(kSmall, {704}, {}, out.string()));
  EXPECT_FALSE(write_trace(kSmall, {1}, {.chunks = {0}, .progress = {}}, out.string()));
}

}  // namespace
}  // namespace stoker
