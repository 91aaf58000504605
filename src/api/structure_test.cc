// Answers in a form that is asked for, with the real engine: the demo's own choices are far from
// any schema, so what comes out right was held to it.
#include "api/structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/json.h"
#include "stoker/llm.h"
#include "stoker/receipt.h"

namespace stoker {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kSchema =
    R"({"type":"object","properties":{"city":{"type":"string","maxLength":12},)"
    R"("number":{"type":"integer","minimum":3,"maximum":17},)"
    R"("kind":{"enum":["old","new"]}},"required":["city","number","kind"],)"
    R"("additionalProperties":false})";

class StructureTest : public ::testing::Test {
 protected:
  // Two engines: drafts in every step, and none.
  static void SetUpTestSuite() {
    for (const bool drafts : {false, true}) {
      EngineOptions options{.num_threads = 2, .log = {}, .progress = {}};
      options.speculation.mode = drafts ? Speculation::kOn : Speculation::kOff;
      options.speculation.enable_adaptive_verification = false;
      auto demo = LLM::open("demo", options);
      ASSERT_TRUE(demo) << demo.error().message;
      demos_.push_back(new LLM(*std::move(demo)));
    }
  }
  static void TearDownTestSuite() {
    for (LLM* demo : demos_) delete demo;
    demos_.clear();
  }

  static Request question(bool thinking = false) {
    Request request;
    ChatPrompt prompt;
    prompt.messages = {{"user", {"What is the capital of France?"}}};
    prompt.thinking = thinking ? "enabled" : "disabled";
    request.prompt = prompt;
    request.sampling.seed = 11;
    request.max_tokens = 400;
    return request;
  }

  static Generation ask(const Request& request, bool drafts = false) {
    auto answers = demos_[drafts ? 1 : 0]->generate({request});
    if (answers[0]) return *std::move(answers[0]);
    ADD_FAILURE() << answers[0].error().message;
    return {};
  }

  static Error refused(const Request& request) {
    auto answers = demos_[0]->generate({request});
    if (!answers[0]) return answers[0].error();
    ADD_FAILURE() << "was not refused";
    return {};
  }

  static std::vector<LLM*> demos_;
};
std::vector<LLM*> StructureTest::demos_;

void expect_valid(const Generation& answer) {
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop) << answer.text;
  const auto json = Json::parse(answer.text);
  ASSERT_TRUE(json) << answer.text;
  ASSERT_EQ(json->members().size(), 3U) << answer.text;
  EXPECT_LE(json->find("city")->as_string().size(), 48U);
  EXPECT_GE(json->find("number")->as_int().value_or(0), 3);
  EXPECT_LE(json->find("number")->as_int().value_or(99), 17);
  EXPECT_THAT(json->find("kind")->as_string(), AnyOf("old", "new"));
}

TEST_F(StructureTest, SchemasHold) {
  for (const double temperature : {0.0, 1.0, 1.5}) {
    for (const bool thinking : {false, true}) {
      Request request = question(thinking);
      request.structure = {Structure::Kind::kJsonSchema, kSchema};
      request.sampling.temperature = temperature;
      const Generation answer = ask(request);
      EXPECT_EQ(answer.reasoning.empty(), !thinking) << "reasoning is free";
      expect_valid(answer);
    }
  }
}

TEST_F(StructureTest, OtherFormsHold) {
  Request request = question();
  request.structure = {Structure::Kind::kRegex, "[A-Z]{3}-[0-9]{4}(é|🦑)"};
  EXPECT_TRUE(std::regex_match(ask(request).text, std::regex("[A-Z]{3}-[0-9]{4}(é|🦑)")));
  request.structure = {Structure::Kind::kChoice, "", {"Rome", "Bern, of course"}};
  EXPECT_THAT(ask(request).text, AnyOf("Rome", "Bern, of course"));
  request.structure = {Structure::Kind::kGrammar, "root ::= \"a\" root \"b\" | \"c\""};
  const std::string nested = ask(request).text;
  const size_t depth = nested.size() / 2;
  EXPECT_EQ(nested, std::string(depth, 'a') + "c" + std::string(depth, 'b'));
  request.structure = {Structure::Kind::kJsonObject};
  const Generation object = ask(request);
  if (object.finish.reason == FinishReason::kStop) {
    const auto json = Json::parse(object.text);
    ASSERT_TRUE(json) << object.text;
    EXPECT_TRUE(json->is_object());
  } else {
    EXPECT_EQ(object.text[0], '{');
  }
}

// Neither drafts nor neighbours change an answer; and drafts were accepted.
TEST_F(StructureTest, DraftsAndNeighboursChangeNothing) {
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    Request request = question(i % 2 == 0);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = 0.4 * (i % 4);
    request.max_tokens = 120;
    if (i % 3 == 0) {
      request.structure = {Structure::Kind::kJsonSchema, kSchema};
    } else if (i % 3 == 1) {
      request.structure = {Structure::Kind::kRegex, "(The|A|In) [a-zA-Z ]{5,40}\\."};
    }
    requests.push_back(request);
  }
  const auto together = demos_[0]->generate(requests);
  const auto drafted = demos_[1]->generate(requests);
  int64_t accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i] && drafted[i]);
    EXPECT_EQ(together[i]->ids, drafted[i]->ids) << i;
    EXPECT_EQ(together[i]->ids, ask(requests[i]).ids) << i;
    if (requests[i].structure.kind != Structure::Kind::kNone)
      accepted += drafted[i]->finish.accepted_drafts;
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(StructureTest, ACallThatIsRequiredComes) {
  for (const bool thinking : {false, true}) {
    for (const bool drafts : {false, true}) {
      Request request = question(thinking);
      auto& prompt = std::get<ChatPrompt>(request.prompt);
      prompt.tools = {{"other"}, {"tide", "d", kSchema}};
      prompt.tool_choice = {ToolChoice::Kind::kNamed, "tide"};
      prompt.parallel_tool_calls = false;
      request.sampling.temperature = 1.2;
      const Generation answer = ask(request, drafts);
      EXPECT_EQ(answer.finish.reason, FinishReason::kCalls);
      ASSERT_EQ(answer.calls.size(), 1U);
      EXPECT_EQ(answer.calls[0].name, "tide");
      EXPECT_EQ(answer.calls[0].id, "call_0");
      const auto arguments = Json::parse(answer.calls[0].arguments);
      ASSERT_TRUE(arguments) << answer.calls[0].arguments;
      EXPECT_GE(arguments->find("number")->as_int().value_or(0), 3);
      EXPECT_EQ(answer.text, "");
    }
  }
}

// The first token of a reply that may not come there, or none.
std::optional<size_t> first_refused(const ChatPrompt& chat, const std::string& reply) {
  const auto model = LoadedModel::load("demo", {});
  EXPECT_TRUE(model) << model.error().message;
  Structures structures(**model);
  Request request;
  request.prompt = chat;
  const auto prompt = encode_prompt(request, **model);
  EXPECT_TRUE(prompt) << prompt.error().message;
  const auto plan = structures.plan(request, *prompt);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan->has_value()) return std::nullopt;
  engine::Constraint constraint(**plan);
  const auto ids = (*model)->tokenizer()->encode(reply, Tokenizer::AddedTokens::kMatch);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto mask = constraint.mask();
    EXPECT_TRUE(mask);
    const auto id = static_cast<size_t>(ids[i]);
    const bool is_allowed = mask->empty() || (((*mask)[id / 64] >> (id % 64)) & 1U) != 0;
    EXPECT_EQ(constraint.accept(ids[i]).has_value(), is_allowed);
    if (!is_allowed) return i;
  }
  return std::nullopt;
}

// Once a block of calls begins, parameters are those that the schema of a strict tool allows.
TEST_F(StructureTest, CallsOfStrictToolsAreHeldToTheirSchemas) {
  auto chat = std::get<ChatPrompt>(question(true).prompt);
  chat.tools = {{"free", "d", kSchema}, {"tide", "d", kSchema, true}};
  const auto call = [](const std::string& name, const std::string& number) {
    return "Let me see.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"" + name +
           "\">\n<｜DSML｜ parameter name=\"city\" string=\"true\">Hull</｜DSML｜ parameter>\n"
           "<｜DSML｜ parameter name=\"number\" string=\"false\">" +
           number +
           "</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"kind\" string=\"true\">old</｜DSML｜ "
           "parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
  };
  const std::string thought = "The <｜ tide |DSML|</think>";
  EXPECT_EQ(first_refused(chat, thought + "Paris, <b>of</b> course."), std::nullopt);
  EXPECT_EQ(first_refused(chat, thought + call("tide", "7")), std::nullopt);
  EXPECT_TRUE(first_refused(chat, thought + call("tide", "99")));
  EXPECT_EQ(first_refused(chat, thought + call("free", "99")), std::nullopt) << "it is not strict";
  EXPECT_TRUE(first_refused(chat, thought + call("other", "7"))) << "no tool";
  EXPECT_TRUE(first_refused(chat, call("tide", "7"))) << "in the reasoning";
  EXPECT_TRUE(first_refused(chat, thought + "<｜DSML｜ tide>"));
  chat.thinking = "disabled";
  EXPECT_EQ(first_refused(chat, call("tide", "17")), std::nullopt);
  EXPECT_TRUE(first_refused(chat, call("tide", "18")));
  chat.tools[1].strict = false;
  EXPECT_EQ(first_refused(chat, call("tide", "18")), std::nullopt);
}

TEST_F(StructureTest, AnswersBesideStrictToolsAreAsEver) {
  for (const bool thinking : {false, true}) {
    Request request = question(thinking);
    auto& prompt = std::get<ChatPrompt>(request.prompt);
    request.sampling.temperature = 0;
    prompt.tools = {{"tide", "d", kSchema}};
    const Generation free = ask(request);
    prompt.tools[0].strict = true;
    const Generation strict = ask(request);
    EXPECT_EQ(strict.prompt_ids, free.prompt_ids) << "all of the schema is required already";
    EXPECT_EQ(strict.ids, free.ids);
    request.sampling.temperature = 1.2;
    EXPECT_EQ(ask(request).ids, ask(request, true).ids) << "drafts change nothing";
  }
}

TEST_F(StructureTest, ReceiptsHoldTheForm) {
  Request request = question(true);
  request.structure = {Structure::Kind::kJsonSchema, kSchema};
  request.structure.any_whitespace = false;
  request.receipt = true;
  const Generation answer = ask(request);
  const auto receipt = parse_receipt(answer.finish.receipt);
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(receipt_json(*receipt), answer.finish.receipt);
  const auto again = replay_request(*receipt, demos_[0]->model());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->structure.text, kSchema);
  EXPECT_FALSE(again->structure.any_whitespace);
  EXPECT_FALSE(first_difference(*receipt, ask(*again)).has_value());
}

// With the calls that must come, that may come beside a form, and that may come as they like.
TEST_F(StructureTest, ReceiptsHoldTheFormOfCalls) {
  for (const bool thinking : {false, true}) {
    for (const int kind : {0, 1, 2}) {
      Request request = question(thinking);
      request.sampling.temperature = 1.2;
      request.receipt = true;
      auto& prompt = std::get<ChatPrompt>(request.prompt);
      prompt.tools = {{"other"}, {"tide", "d", kSchema, kind == 2}};
      if (kind == 0) prompt.tool_choice = {ToolChoice::Kind::kRequired};
      if (kind == 1) request.structure = {Structure::Kind::kChoice, "", {"Rome", "Bern"}};
      const Generation answer = ask(request);
      const auto receipt = parse_receipt(answer.finish.receipt);
      ASSERT_TRUE(receipt) << receipt.error().message;
      EXPECT_EQ(receipt_json(*receipt), answer.finish.receipt);
      const auto& ids = std::get<TokenPrompt>(receipt->request.prompt);
      ASSERT_EQ(ids.tools.size(), 2U);
      EXPECT_EQ(ids.must_call, kind == 0);
      EXPECT_EQ(ids.tools[1].strict, kind == 2);
      const auto again = replay_request(*receipt, demos_[0]->model());
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_FALSE(first_difference(*receipt, ask(*again, true)).has_value()) << kind;
    }
  }
  Request request = question();
  request.prompt = TokenPrompt{{5, 6}, {}, {{"tide"}}};
  EXPECT_EQ(refused(request).field, "reply");
  request.prompt = TokenPrompt{{5, 6}, {ReplyStart::kChat, true}, {}, true};
  EXPECT_EQ(refused(request).field, "tools");
}

TEST_F(StructureTest, WhatCannotBeHeldIsRefused) {
  Request request = question();
  request.structure = {Structure::Kind::kJsonSchema,
                       R"({"type":"object","properties":{"a":{"not":{}}}})"};
  Error error = refused(request);
  EXPECT_EQ(error.field, "structured_outputs");
  EXPECT_THAT(error.message, HasSubstr("#/properties/a/not"));
  request.structure.is_shown = true;
  EXPECT_EQ(refused(request).field, "response_format");
  request.structure = {Structure::Kind::kJsonSchema, "{"};
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request.structure = {Structure::Kind::kRegex, "(a"};
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request.structure = {Structure::Kind::kChoice};
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request.structure = {Structure::Kind::kRegex, "a"};
  request.ignore_eos = true;
  EXPECT_EQ(refused(request).field, "ignore_eos");
  request.ignore_eos = false;
  request.sampling.banned_token_ids = ask(request).ids;
  EXPECT_THAT(refused(request).message, HasSubstr("no token that may be chosen"));
  request = question();
  auto& prompt = std::get<ChatPrompt>(request.prompt);
  prompt.tools = {{"tide"}};
  prompt.tools[0].strict = true;
  prompt.tools[0].parameters = R"({"type":"object","properties":{"a":{"not":{}}}})";
  error = refused(request);
  EXPECT_EQ(error.field, "tools");
  EXPECT_THAT(error.message, HasSubstr("tools[0]: schema at #/properties/a/not"));
}

}  // namespace
}  // namespace stoker
