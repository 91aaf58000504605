#include "api/receipt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stoker/llm.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every member, and every parameter at another value than that of one that is left out.
Receipt full_receipt() {
  Receipt receipt;
  receipt.version = "0.1.0";
  receipt.model = "demo \"x\"";
  receipt.model_digest = "0123456789abcdef0123456789abcdef";
  receipt.numeric_mode = kReferenceMode;
  Request& request = receipt.request;
  request.prompt = TokenPrompt{{3, 1, 4}, {ReplyStart::kThinking}};
  SamplingParams& sampling = request.sampling;
  sampling.temperature = 0.1;
  sampling.top_p = 0.95;
  sampling.top_k = -1;
  sampling.min_p = 1e-3;
  sampling.seed = UINT64_MAX;
  sampling.repetition_penalty = 1.1;
  sampling.presence_penalty = -0.5;
  sampling.frequency_penalty = 0.25;
  sampling.logit_bias = {{5, -100}, {17, 1.0 / 3}};
  sampling.allowed_token_ids = {5, 6, 7};
  sampling.banned_token_ids = {6};
  sampling.bad_words = {"né\n"};
  request.max_tokens = 5;
  request.min_tokens = 1;
  request.stop = {"a", "\"b"};
  request.stop_everywhere = true;
  request.include_stop_str_in_output = true;
  request.stop_token_ids = {2};
  request.ignore_eos = true;
  request.thinking_token_budget = 4;
  request.repetition_detection = {8, 2, 3};
  receipt.ids = {5, 7, 7};
  receipt.stop = "\"b";
  return receipt;
}

// The receipt of full_receipt() with `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = receipt_json(full_receipt());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ReceiptTest, WhatIsWrittenIsReadAgain) {
  const std::string text = receipt_json(full_receipt());
  EXPECT_EQ(
      text,
      R"({"stoker_receipt":1,"version":"0.1.0","model":"demo \"x\"",)"
      R"("model_digest":"0123456789abcdef0123456789abcdef","numeric_mode":"reference-1",)"
      R"("prompt_ids":[3,1,4],"reply":"thinking","parameters":{"seed":18446744073709551615,)"
      R"("max_tokens":5,"temperature":0.1,"top_p":0.95,"top_k":-1,"min_p":0.001,)"
      R"("repetition_penalty":1.1,"presence_penalty":-0.5,"frequency_penalty":0.25,)"
      R"("logit_bias":{"5":-100,"17":0.3333333333333333},"allowed_token_ids":[5,6,7],)"
      R"("banned_token_ids":[6],"bad_words":["né\n"],"stop":["a","\"b"],)"
      R"("stop_everywhere":true,"include_stop_str_in_output":true,"stop_token_ids":[2],"min_tokens":1,)"
      R"("ignore_eos":true,"thinking_token_budget":4,"repetition_detection":)"
      R"({"max_pattern_size":8,"min_pattern_size":2,"min_count":3}},"ids":[5,7,7],"finish_reason":"stop","stop_reason":"\"b"})");
  const auto read = parse_receipt(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(receipt_json(*read), text);
  EXPECT_EQ(read->request.sampling.seed, UINT64_MAX);
  EXPECT_EQ(read->request.sampling.logit_bias.at(17), 1.0 / 3);
  EXPECT_EQ(read->stop, "\"b");
}

TEST(ReceiptTest, HowCallsAreReadIsTold) {
  Receipt receipt = full_receipt();
  receipt.reason = FinishReason::kCalls;
  receipt.stop.reset();
  auto& reply = std::get<TokenPrompt>(receipt.request.prompt).reply;
  for (const bool one_call : {false, true}) {
    for (const char* only_tool : {"", "tide"}) {
      reply = {ReplyStart::kOpenChat, true, one_call, only_tool};
      const std::string text = receipt_json(receipt);
      EXPECT_THAT(text, HasSubstr(R"("reply":{"start":"open_chat","calls":true)"));
      const auto read = parse_receipt(text);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(std::get<TokenPrompt>(read->request.prompt).reply, reply);
      EXPECT_EQ(read->reason, FinishReason::kCalls);
    }
  }
}

TEST(ReceiptTest, ToolsAreTold) {
  Receipt receipt = full_receipt();
  auto& prompt = std::get<TokenPrompt>(receipt.request.prompt);
  prompt.reply = {ReplyStart::kCalls, true};
  prompt.tools = {{"now"}, {"tide", {}, R"({"type":"object"})", true}};
  prompt.must_call = true;
  const std::string text = receipt_json(receipt);
  EXPECT_THAT(text, HasSubstr(R"("tools":[{"name":"now"},{"name":"tide",)"
                              R"("parameters":"{\"type\":\"object\"}","strict":true}],)"
                              R"("must_call":true)"));
  const auto read = parse_receipt(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(receipt_json(*read), text);
  const auto refused = [&text](const std::string& from, const std::string& to) {
    std::string other = text;
    const auto bad = parse_receipt(other.replace(other.find(from), from.size(), to));
    return bad ? "none" : bad.error().message;
  };
  EXPECT_THAT(refused(R"({"name":"now"})", "{}"), HasSubstr("tools[0]: expected an object with"));
  EXPECT_THAT(refused(R"({"name":"now"})", "7"), HasSubstr("tools[0]: expected an object"));
  EXPECT_THAT(refused(R"("name":"now")", R"("name":7)"), HasSubstr("tools[0].name: expected a"));
  EXPECT_THAT(refused(R"("strict":true)", R"("strict":false)"), HasSubstr("tools[1].strict"));
  EXPECT_THAT(refused(R"("must_call":true)", R"("must_call":1)"), HasSubstr("must_call: expected"));
}

TEST(ReceiptTest, WhatIsLeftOutIsOfTheFormatAndNotOfAModel) {
  const auto read = parse_receipt(
      R"({"stoker_receipt":1,"version":"9","model":"m","model_digest":"00000000000000000000000000000000",)"
      R"("numeric_mode":"reference-1","prompt_ids":[1],"parameters":{"seed":0,"max_tokens":2},)"
      R"("ids":[4,5],"finish_reason":"length"})");
  ASSERT_TRUE(read) << read.error().message;
  const SamplingParams& sampling = read->request.sampling;
  EXPECT_EQ(sampling.temperature, 1.0);
  EXPECT_EQ(sampling.top_p, 1.0);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.0);
  EXPECT_EQ(sampling.repetition_penalty, 1.0);
  EXPECT_EQ(std::get<TokenPrompt>(read->request.prompt).reply, ReplyFormat());
  EXPECT_FALSE(read->stop || read->stop_token);
}

TEST(ReceiptTest, BadInputIsRefusedByName) {
  struct Case {
    std::string text;
    std::string told;
  };
  const Case cases[] = {
      {"", "expected"},
      {"[]", "expected a receipt, a JSON object, found an array"},
      {"{}", "stoker_receipt: expected a value in a receipt, found none"},
      {with(R"("stoker_receipt":1)", R"("stoker_receipt":2,"more":0)"),
       "stoker_receipt: expected 1, the format that this Stoker reads, found 2"},
      {with(R"("stoker_receipt":1)", R"("stoker_receipt":1.0)"), "stoker_receipt: expected 1"},
      {with(R"("version":"0.1.0")", R"("version":1)"), "version: expected a string, found 1"},
      {with(R"("ids":[5,7,7],)", ""), "ids: expected a value in a receipt, found none"},
      {with(R"("ids":[5,7,7])", R"("ids":[])"), "ids: expected at least one token id"},
      {with(R"("ids":[5,7,7])", R"("ids":[5,-1,7])"),
       "ids[1]: expected an integer from 0 to 2147483647, found -1"},
      {with(R"("ids":[5,7,7])", R"("ids":[5,2147483648])"), "ids[1]: expected an integer"},
      {with(R"("ids":[5,7,7])", R"("ids":[5,null])"), "ids[1]: expected an integer"},
      {with(R"("ids":[5,7,7])", R"("ids":5)"), "ids: expected an array of token ids, found 5"},
      {with(R"("ids":[5,7,7])", R"("ids":[5,7,7,7,7,7])"), "ids: expected 1 to 5 of them"},
      {with(R"("finish_reason":"stop")", R"("finish_reason":"length")"),
       "ids: expected 5 to 5 of them, by parameters and finish_reason, found 3"},
      {with(R"("min_tokens":1)", R"("min_tokens":4)"), "ids: expected 4 to 5 of them"},
      {with(R"("min_tokens":1)", R"("min_tokens":-1)"), "min_tokens: expected an integer from 0"},
      {with(R"("prompt_ids":[3,1,4])", R"("prompt_ids":[])"), "prompt_ids: expected at least one"},
      {with(R"("prompt_ids":[3,1,4])", R"("prompt_ids":[3,"1"])"), "prompt_ids[1]: expected"},
      {with("0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef"),
       "model_digest: expected 32 hexadecimal digits"},
      {with("0123456789abcdef0123456789abcdef", ""), "model_digest: expected 32"},
      {with(R"("reply":"thinking")", R"("reply":"think")"),
       R"(reply: expected text, chat, thinking, open_chat, open_thinking or calls, found "think")"},
      {with(R"("reply":"thinking")", R"("reply":{"start":"chat"})"), "reply: expected an object"},
      {with(R"("reply":"thinking")", R"("reply":{"start":"text","calls":true})"),
       "reply: expected an object with start, not text, and calls"},
      {with(R"("reply":"thinking")", R"("reply":{"start":"chat","calls":false})"),
       "reply.calls: expected true"},
      {with(R"("reply":"thinking")", R"("reply":{"start":"chat","calls":true,"tool":"x"})"),
       "reply.tool: expected start, calls, one_call or only_tool"},
      {with(R"("stop_reason":"\"b")", R"("stop_reason":[])"), "stop_reason: expected a string"},
      {with(R"("finish_reason":"stop")", R"("finish_reason":"abort")"),
       R"(finish_reason: expected stop, length, tool_calls or repetition, found "abort")"},
      {with(R"("seed":18446744073709551615,)", ""), "seed: expected a value in parameters"},
      {with("18446744073709551615", "18446744073709551616"), "seed: expected an integer from 0"},
      {with("18446744073709551615", "-1"), "seed: expected an integer from 0"},
      {with(R"("max_tokens":5)", R"("max_tokens":0)"), "max_tokens: expected an integer from 1"},
      {with(R"("temperature":0.1)", R"("temperature":"0.1")"),
       R"(temperature: expected a number, found "0.1")"},
      {with(R"("temperature":0.1)", R"("temperature":1e999)"), "number overflow"},
      {with(R"("temperature":0.1)", R"("temprature":0.1)"),
       R"("temprature": unknown in parameters; did you mean "temperature"?)"},
      {with(R"("parameters":{)", R"("prompt":[1],"parameters":{)"),
       R"("prompt": unknown in a receipt; did you mean "prompt_ids"?)"},
      {with(R"("ignore_eos":true)", R"("ignore_eos":1)"), "ignore_eos: expected a boolean"},
      {with(R"("thinking_token_budget":4)", R"("thinking_token_budget":-1)"),
       "thinking_token_budget: expected an integer from 0"},
      {with(R"({"max_pattern_size":8,)", "{"),
       "repetition_detection.max_pattern_size: expected a value, found none"},
      {with(R"("min_count":3)", R"("min_count":3,"x":1)"),
       "repetition_detection: expected max_pattern_size, min_pattern_size and min_count"},
      {with(R"("min_count":3)", R"("min_count":1.5)"),
       "repetition_detection.min_count: expected an integer"},
      {with(R"("repetition_detection":{"max_pattern_size":8,"min_pattern_size":2,"min_count":3})",
            R"("repetition_detection":[])"),
       "repetition_detection: expected an object"},
      {with(R"({"5":-100)", R"({"05":-100)"), R"(logit_bias: expected a token id as key)"},
      {with(R"({"5":-100)", R"({"17":-100)"), "17"},  // a key that is there twice
      {with(R"({"5":-100)", R"({"5":"a")"), R"(logit_bias.5: expected a number, found "a")"},
      {with(R"("bad_words":["né\n"])", R"("bad_words":[1])"), "bad_words[0]: expected a string"},
      {with("{", "{\"ids\":[1],"), "ids"},
      {receipt_json(full_receipt()) + "x", "expected"},
      {with(R"("parameters":{)", R"("x":[[[[]]]],"parameters":{)"), "deep"},
  };
  for (const Case& one : cases) {
    const auto read = parse_receipt(one.text);
    ASSERT_FALSE(read) << one.text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << one.text;
    EXPECT_THAT(read.error().message, HasSubstr(one.told));
  }
  const std::string text = receipt_json(full_receipt());
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(parse_receipt(text.substr(0, n))) << n;
}

class ReplayTest : public ::testing::Test {
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

  static Request france(int32_t max_tokens) {
    Request request;
    request.prompt = TextPrompt{"The capital of France is", true};
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.receipt = true;
    return request;
  }

  static Generation ask(const Request& request) {
    auto answers = demo_->generate({request});
    if (answers[0]) return *std::move(answers[0]);
    ADD_FAILURE() << answers[0].error().message;
    return {};
  }

  static Receipt read(const std::string& text) {
    auto receipt = parse_receipt(text);
    if (receipt) return *std::move(receipt);
    ADD_FAILURE() << receipt.error().message << ": " << text;
    return {};
  }

  static std::optional<Difference> replay(const Receipt& receipt) {
    const auto request = replay_request(receipt, demo_->model());
    if (!request) {
      ADD_FAILURE() << request.error().message;
      return {};
    }
    return first_difference(receipt, ask(*request));
  }

  // Every choice of the answer, from its receipt alone, is what it was; the receipts.
  static std::vector<Receipt> expect_equal(const Request& request) {
    const Generation answer = ask(request);
    std::vector<Choice> choices = {answer};
    choices.insert(choices.end(), answer.others.begin(), answer.others.end());
    std::vector<Receipt> receipts;
    for (const Choice& choice : choices) {
      const Receipt receipt = read(choice.finish.receipt);
      EXPECT_EQ(receipt.ids, choice.ids);
      EXPECT_EQ(std::get<TokenPrompt>(receipt.request.prompt).ids, answer.prompt_ids);
      EXPECT_EQ(receipt.request.sampling.seed, choice.finish.seed);
      EXPECT_EQ(receipt.reason, choice.finish.reason);
      EXPECT_EQ(receipt.stop, choice.finish.stop);
      const auto difference = replay(receipt);
      EXPECT_FALSE(difference) << "at " << difference->position << ": " << choice.finish.receipt;
      receipts.push_back(receipt);
    }
    return receipts;
  }

  static LLM* demo_;
};
LLM* ReplayTest::demo_ = nullptr;

TEST_F(ReplayTest, OnlyWhoAsksForAReceiptHasOne) {
  Request request = france(4);
  request.receipt = false;
  EXPECT_EQ(ask(request).finish.receipt, "");
}

TEST_F(ReplayTest, GreedyAnswersAreEqual) {
  const auto ended = expect_equal(france(40));
  EXPECT_EQ(ended[0].reason, FinishReason::kStop);
  EXPECT_EQ(ended[0].model, "demo");
  EXPECT_EQ(ended[0].numeric_mode, "reference-1");
  const auto cut = expect_equal(france(2));
  EXPECT_EQ(cut[0].reason, FinishReason::kLength);
}

TEST_F(ReplayTest, SampledChoicesWithEveryParameterAreEqual) {
  Request request = france(30);
  request.n = 4;
  request.sampling.temperature = 1.7;
  request.sampling.top_p = 0.98;
  request.sampling.top_k = 200;
  request.sampling.min_p = 1e-4;
  request.sampling.repetition_penalty = 1.2;
  request.sampling.presence_penalty = 0.5;
  request.sampling.frequency_penalty = 0.3;
  request.sampling.logit_bias = {{300, 1.5}, {301, -100}};
  request.sampling.banned_token_ids = {302};
  request.sampling.bad_words = {"Paris"};
  request.min_tokens = 10;
  request.stop_token_ids = {310, 311};
  const auto receipts = expect_equal(request);
  ASSERT_EQ(receipts.size(), 4U);
  EXPECT_NE(receipts[0].ids, receipts[1].ids);
}

// Defaults of the checkpoint, a seed that was drawn and a limit that nobody gave.
TEST_F(ReplayTest, NothingIsLeftToTheCheckpoint) {
  Request request;
  request.prompt = ChatPrompt{{{"user", {"What does tree mean?"}, ""}}, "disabled", {}};
  request.receipt = true;
  const Receipt receipt = expect_equal(request)[0];
  EXPECT_EQ(receipt.request.sampling.temperature, demo_->model().defaults.temperature);
  EXPECT_EQ(receipt.request.sampling.top_p, demo_->model().defaults.top_p);
  EXPECT_TRUE(receipt.request.sampling.seed && receipt.request.max_tokens);
}

// Stop strings end inside of tokens, and are looked for in what is content.
TEST_F(ReplayTest, StopStringsEndTheAnswerAgain) {
  const Generation usual = ask(france(20));
  Request request = france(20);
  request.stop = {usual.text.substr(3, 2), "never there"};
  const Receipt text = expect_equal(request)[0];
  EXPECT_EQ(text.stop, request.stop[0]);
  EXPECT_LT(text.ids.size(), usual.ids.size());

  request.prompt = ChatPrompt{{{"user", {"What is the capital of France?"}, ""}}, "enabled", {}};
  request.max_tokens = 60;
  request.stop = {"Fra"};  // the reasoning has it, too
  const Generation chat = ask(request);
  EXPECT_THAT(chat.reasoning, HasSubstr("Fra"));
  EXPECT_THAT(chat.text, Not(HasSubstr("Fra")));
  EXPECT_FALSE(chat.text.empty());
  EXPECT_EQ(chat.finish.stop, "Fra");
  const Receipt thinking = expect_equal(request)[0];
  EXPECT_EQ(std::get<TokenPrompt>(thinking.request.prompt).reply,
            ReplyFormat{ReplyStart::kThinking});

  Request tokens = france(20);
  tokens.stop_token_ids = {usual.ids[1]};
  EXPECT_EQ(expect_equal(tokens)[0].stop_token, usual.ids[1]);
}

TEST_F(ReplayTest, TheFirstIdThatDiffersIsFound) {
  const Receipt right = read(ask(france(20)).finish.receipt);
  ASSERT_GT(right.ids.size(), 3U);
  Receipt wrong = right;
  wrong.ids[2] = right.ids[2] + 1;
  wrong.ids[3] = right.ids[3] + 1;
  auto difference = replay(wrong);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, 2U);
  EXPECT_EQ(difference->expected, right.ids[2] + 1);
  EXPECT_EQ(difference->found, right.ids[2]);

  Receipt longer = right;  // behind the end of text
  longer.ids.push_back(7);
  difference = replay(longer);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, right.ids.size());
  EXPECT_EQ(difference->expected, 7);
  EXPECT_FALSE(difference->found);

  Receipt shorter = right;  // it did not end there
  shorter.ids.pop_back();
  difference = replay(shorter);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, shorter.ids.size());
  EXPECT_FALSE(difference->expected || difference->found);

  Receipt other_end = right;
  other_end.stop = "x";
  EXPECT_TRUE(replay(other_end));

  Receipt other_prompt = right;
  std::get<TokenPrompt>(other_prompt.request.prompt).ids = {298, 275, 264};
  difference = replay(other_prompt);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, 0U);
}

TEST_F(ReplayTest, AnotherModelIsRefused) {
  const Receipt right = read(ask(france(4)).finish.receipt);
  const auto refused = [](const Receipt& receipt) {
    const auto request = replay_request(receipt, demo_->model());
    EXPECT_FALSE(request);
    return request ? Error() : request.error();
  };
  Receipt other = right;
  other.model = "another\x1b";
  other.model_digest[0] = other.model_digest[0] == '0' ? '1' : '0';
  EXPECT_EQ(refused(other).field, "model_digest");
  EXPECT_THAT(refused(other).message, HasSubstr("expected " + right.model_digest +
                                                ", which is demo, found " + other.model_digest));
  EXPECT_THAT(refused(other).message, HasSubstr("\"another\\u001b\""));

  other = right;
  other.numeric_mode = kCompactMode;
  EXPECT_EQ(refused(other).field, "numeric_mode");
  other = right;
  other.ids[1] = demo_->model().vocab_size;
  EXPECT_EQ(refused(other).field, "ids[1]");
  EXPECT_THAT(refused(other).message, HasSubstr("expected token ids from 0 to"));

  // What the parser leaves to the engine.
  other = right;
  other.request.sampling.top_p = 2;
  const auto request = replay_request(other, demo_->model());
  ASSERT_TRUE(request);
  EXPECT_EQ(demo_->generate({*request})[0].error().field, "top_p");
}

TEST_F(ReplayTest, ModesHaveTheirEngines) {
  Receipt receipt = full_receipt();
  EXPECT_EQ(*replay_mode(receipt), BoundedReplay::kExact);
  receipt.numeric_mode = kCompactMode;
  EXPECT_EQ(*replay_mode(receipt), BoundedReplay::kCompact);
  receipt.numeric_mode = "official";
  EXPECT_EQ(replay_mode(receipt).error().code, ErrorCode::kInvalidArgument);
}

// Compact replay is a mode of its own, but for prompts that run all layers anyway.
TEST(ReplayModeTest, TellsWhatWasComputed) {
  const auto open = [](BoundedReplay replay) {
    EngineOptions options;
    options.num_threads = 2;
    options.bounded_replay = replay;
    auto llm = LLM::open("demo", options);
    EXPECT_TRUE(llm) << llm.error().message;
    return llm;
  };
  auto exact = open(BoundedReplay::kExact);
  auto compact = open(BoundedReplay::kCompact);
  ASSERT_TRUE(exact && compact);
  EXPECT_EQ(exact->model().digest, compact->model().digest);
  Request request;
  TokenPrompt prompt;
  for (int32_t i = 0; i < 400; ++i) prompt.ids.push_back(60 + i * 37 % 1900);
  request.prompt = prompt;
  request.max_tokens = 4;
  request.logprobs = 0;
  request.receipt = true;

  const Generation usual = *exact->generate({request})[0];
  const Generation other = *compact->generate({request})[0];
  EXPECT_NE(usual.details[0].logprobs, other.details[0].logprobs);
  const auto receipt = parse_receipt(other.finish.receipt);
  ASSERT_TRUE(receipt);
  EXPECT_EQ(receipt->numeric_mode, kCompactMode);
  EXPECT_FALSE(replay_request(*receipt, exact->model()));
  const auto again = replay_request(*receipt, compact->model());
  ASSERT_TRUE(again);
  EXPECT_FALSE(first_difference(*receipt, *compact->generate({*again})[0]));

  request.prompt_logprobs = 0;
  const Generation whole = *compact->generate({request})[0];
  EXPECT_EQ(parse_receipt(whole.finish.receipt)->numeric_mode, kReferenceMode);
  EXPECT_EQ(whole.details[0].logprobs, usual.details[0].logprobs);
}

// Where the weights are kept and what the model is called is not in its digest; what decides an
// answer is.
TEST(ModelDigestTest, IsOfWhatDecidesAnAnswer) {
  const testing::CheckpointCopy copy;
  const auto digest = [&copy](bool pack) {
    EngineOptions options;
    options.num_threads = 2;
    options.weights.store = copy.dir() + "/store";
    options.weights.pack = pack;
    const auto engine = Engine::open(copy.dir(), options);
    EXPECT_TRUE(engine) << engine.error().message;
    return engine ? (*engine)->model().digest : "";
  };
  const std::string right = digest(true);
  EXPECT_THAT(right, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(digest(true), right) << "remembered";
  EXPECT_EQ(digest(false), right) << "without a store";
  const testing::CheckpointCopy elsewhere;
  const auto engine = Engine::open(elsewhere.dir());
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->model().digest, right);

  copy.edit_json("generation_config.json", "temperature", Json::real(0.5));
  EXPECT_EQ(digest(false), right) << "receipts give it";
  copy.edit_json("generation_config.json", "eos_token_id",
                 Json::array({Json::integer(7), Json::integer(1)}));
  const std::string other_ends = digest(false);
  EXPECT_NE(other_ends, right);
  copy.edit_json("generation_config.json", "eos_token_id",
                 Json::array({Json::integer(1), Json::integer(7)}));
  EXPECT_EQ(digest(false), other_ends);
  copy.write("tokenizer.json", copy.text("tokenizer.json") + "\n");
  const std::string other_text = digest(false);
  EXPECT_NE(other_text, other_ends);
  copy.edit_shard("model-00003-of-00003.safetensors", [](std::vector<testing::OwnedTensor>& all) {
    for (testing::OwnedTensor& tensor : all) {
      if (tensor.dtype == DType::kBF16) {
        tensor.bytes[0] = static_cast<char>(tensor.bytes[0] ^ 1);
        return;
      }
    }
    ADD_FAILURE() << "no tensor to change";
  });
  EXPECT_NE(digest(false), other_text);
}

}  // namespace
}  // namespace stoker
