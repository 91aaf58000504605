#include "chat/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/golden_chat.h"

namespace stoker::chat {
namespace {

using testing::golden_chats;
using testing::golden_rejections;
using testing::golden_start;
using testing::GoldenChat;
using testing::GoldenRejection;
using testing::kNumGoldenChats;
using testing::kNumGoldenRejections;

constexpr std::string_view kEffort75 =
    "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

Message message(std::string role, std::string text, std::string reasoning = "") {
  return {std::move(role), {std::move(text)}, std::move(reasoning)};
}

Conversation chat_mode(std::vector<Message> messages) {
  return {std::move(messages), "disabled", std::nullopt, false};
}

Conversation thinking_mode(std::vector<Message> messages, std::string effort = "75") {
  return {std::move(messages), std::nullopt, std::move(effort), false};
}

// The prompt with each control token in [[ ]] by its short name, so that control and text are told
// apart.
std::string shown(const Conversation& conversation) {
  static const std::map<Control, std::string> names = {
      {Control::kBeginOfText, "BOS"}, {Control::kEndOfText, "EOS"},
      {Control::kSystem, "SYS"},      {Control::kUser, "USR"},
      {Control::kAssistant, "AST"},   {Control::kLatestReminder, "REM"},
      {Control::kThink, "TO"},        {Control::kEndOfThink, "TC"},
      {Control::kDsml, "D"},          {Control::kImage, "IMG"},
      {Control::kBox, "BOX"},         {Control::kEndOfBox, "/BOX"},
      {Control::kRef, "REF"},         {Control::kEndOfRef, "/REF"}};
  const auto rendered = render(conversation);
  if (!rendered.has_value()) return "error: " + rendered.error().field;
  std::string out;
  size_t at = 0;
  for (const ControlMark& mark : rendered->marks) {
    out += rendered->text.substr(at, mark.begin - at) + "[[" + names.at(mark.control) + "]]";
    at = mark.begin + spelling(mark.control).size();
  }
  return out + rendered->text.substr(at);
}

// Code points before each byte offset.
std::pair<int64_t, int64_t> code_point_range(std::string_view text, const ControlMark& mark) {
  const auto count = [text](size_t end) {
    int64_t n = 0;
    for (const char c : text.substr(0, end))
      n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
    return n;
  };
  return {count(mark.begin), count(mark.begin + spelling(mark.control).size())};
}

TEST(Render, GoldenTextAndControlTokens) {
  const std::vector<GoldenChat> chats = golden_chats();
  ASSERT_EQ(chats.size(), kNumGoldenChats);
  size_t num_special = 0;
  for (const GoldenChat& chat : chats) {
    SCOPED_TRACE(chat.name);
    const auto rendered = render(chat.conversation);
    ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
    EXPECT_EQ(rendered->text, chat.rendered);
    if (chat.special.empty()) continue;
    ++num_special;
    std::vector<std::pair<int64_t, int64_t>> special;
    for (const ControlMark& mark : rendered->marks) {
      EXPECT_EQ(rendered->text.substr(mark.begin, spelling(mark.control).size()),
                spelling(mark.control));
      special.push_back(code_point_range(rendered->text, mark));
    }
    EXPECT_EQ(special, chat.special);
  }
  EXPECT_EQ(num_special, 70U);  // the file does not tell them for five that were made by rewriting
}

TEST(Render, GoldenStartsOfReplies) {
  size_t num_told = 0;
  for (const GoldenChat& chat : golden_chats()) {
    if (!chat.start.has_value() || !chat.has_calls.has_value()) continue;
    SCOPED_TRACE(chat.name);
    ++num_told;
    const auto rendered = render(chat.conversation);
    ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
    EXPECT_EQ(rendered->has_calls, *chat.has_calls);
    // Without thinking, too, content that is continued keeps its line feeds here.
    const ReplyStart expected =
        chat.name == "H: prefix, chat" ? ReplyStart::kContent : golden_start(*chat.start);
    EXPECT_EQ(rendered->start, expected);
  }
  EXPECT_EQ(num_told, 70U);
}

// The vendor's library refuses these requests. Here only what cannot be rendered is refused, with
// the field at fault; what is lenient on purpose has none.
TEST(Render, GoldenRejections) {
  const std::map<std::string, std::string> fields = {
      {"no messages", "messages"},
      {"tool result without call", ""},
      {"call without result", ""},
      {"prefix not last", "messages[1].prefix"},
      {"prefix with tools", ""},
      {"required in thinking", ""},
      {"unknown named tool", "tool_choice"},
      {"json_object without the word", ""},
      {"image in assistant", "messages[1].content"},
      {"bad tool name", "tools[0].function.name"},
      {"same tool twice", "tools[1].function.name"},
      {"assistant without content and calls", ""},
      {"strict and not strict", ""},
      {"role developer", ""},
      {"integer effort", ""},
      // Sampling, stop strings and streams are no part of a prompt.
      {"n 2", ""},
      {"max_tokens 0", ""},
      {"temperature 3", ""},
      {"top_p 0", ""},
      {"empty stop", ""},
      {"17 stops", ""},
      {"stream_options without stream", ""},
  };
  const auto rejections = golden_rejections();
  ASSERT_EQ(rejections.size(), kNumGoldenRejections);
  for (const GoldenRejection& rejection : rejections) {
    SCOPED_TRACE(rejection.name);
    ASSERT_TRUE(fields.contains(rejection.name));
    const auto rendered = render(rejection.conversation);
    EXPECT_EQ(rendered.has_value() ? "" : rendered.error().field, fields.at(rejection.name));
  }
}

TEST(Render, SystemAndTwoTurnsWithoutThinking) {
  EXPECT_EQ(
      shown(chat_mode(
          {message("system", "Answer like a lighthouse keeper."), message("user", "Is it foggy?"),
           message("assistant", "Thick as wool.", "ignored"), message("user", "And tomorrow?")})),
      "[[BOS]][[SYS]]Answer like a lighthouse keeper.[[USR]]Is it foggy?[[AST]][[TC]]Thick as wool."
      "[[EOS]][[USR]]And tomorrow?[[AST]][[TC]]");
}

TEST(Render, OldReasoningIsDropped) {
  EXPECT_EQ(shown(thinking_mode(
                {message("user", "Pick a prime below 10."),
                 message("assistant", "7", "2,3,5,7; take 7."), message("user", "Square it.")},
                "low")),
            "[[BOS]][[SYS]]Reasoning Effort: 50 (range 1-100, the higher the value, the more "
            "thorough the "
            "reasoning)\n\n[[USR]]Pick a prime below 10.[[AST]][[TC]]7[[EOS]][[USR]]Square "
            "it.[[AST]][[TO]]");
}

TEST(Render, DeveloperIsSystemAtAnyPlace) {
  EXPECT_EQ(shown(thinking_mode({message("system", "You are Quill."), message("user", "Hi."),
                                 message("assistant", "Hello.", "greet"),
                                 message("developer", "From now on reply in French.")},
                                "42")),
            "[[BOS]][[SYS]]Reasoning Effort: 42 (range 1-100, the higher the value, the more "
            "thorough the "
            "reasoning)\n\nYou are Quill.[[USR]]Hi.[[AST]][[TC]]Hello.[[EOS]][[SYS]]From now on "
            "reply in French."
            "[[AST]][[TO]]");
}

TEST(Render, LatestReminder) {
  EXPECT_EQ(shown(chat_mode(
                {message("system", "S"), message("user", "U1"), message("assistant", "A1"),
                 message("latest_reminder", "2026-11-29, locale en-GB"), message("user", "U2")})),
            "[[BOS]][[SYS]]S[[USR]]U1[[AST]][[TC]]A1[[EOS]][[REM]]2026-11-29, locale "
            "en-GB[[USR]]U2[[AST]][[TC]]");
}

TEST(Render, ReminderDirectlyAfterAnotherIsRemoved) {
  EXPECT_EQ(shown(chat_mode({message("latest_reminder", "x"), message("system", ""),
                             message("latest_reminder", "y"), message("latest_reminder", "z"),
                             message("user", "u"), message("latest_reminder", "w")})),
            "[[BOS]][[REM]]x[[USR]]u[[REM]]w[[AST]][[TC]]");
}

TEST(Render, EmptySystemIsRemovedBeforeUsersAreJoined) {
  EXPECT_EQ(shown(chat_mode({{"system", {}, ""},
                             message("user", "a"),
                             {"developer", {""}, ""},
                             message("user", "b")})),
            "[[BOS]][[USR]]a\n\nb[[AST]][[TC]]");
}

TEST(Render, SystemOfTwoEmptyBlocksIsNotEmpty) {
  EXPECT_EQ(shown(chat_mode({{"system", {"", ""}, ""}, message("user", "a")})),
            "[[BOS]][[SYS]]\n\n[[USR]]a[[AST]][[TC]]");
}

TEST(Render, NothingButEmptySystemsLeavesTheReplyHeader) {
  EXPECT_EQ(shown(chat_mode({message("system", "")})), "[[BOS]][[AST]][[TC]]");
  EXPECT_EQ(shown(thinking_mode({message("system", "")})), "[[BOS]][[AST]][[TO]]");
}

TEST(Render, ContentWithoutBlocksIsEmpty) {
  EXPECT_EQ(shown(chat_mode({{"user", {}, ""}, message("user", "a"), {"assistant", {}, ""}})),
            "[[BOS]][[USR]]\n\na[[AST]][[TC]][[EOS]][[AST]][[TC]]");
}

TEST(Render, KeptReasoningStandsInEveryAssistantTurn) {
  Conversation kept = thinking_mode({message("user", "q"), message("assistant", "a", "r"),
                                     message("assistant", "b"), message("user", "c")});
  kept.keep_reasoning = true;
  EXPECT_EQ(
      shown(kept),
      "[[BOS]][[SYS]]" + std::string(kEffort75) +
          "[[USR]]q[[AST]][[TO]]r[[TC]]a[[EOS]][[AST]][[TO]][[TC]]b[[EOS]][[USR]]c[[AST]][[TO]]");
  kept.thinking = "disabled";
  EXPECT_EQ(shown(kept),
            "[[BOS]][[USR]]q[[AST]][[TC]]a[[EOS]][[AST]][[TC]]b[[EOS]][[USR]]c[[AST]][[TC]]");
}

TEST(Render, SpellingsOfControlTokensInMessagesAreText) {
  std::string all = "x";
  for (size_t i = 0; i < kFirstGrounding; ++i) all += kControlSpellings[i];
  Conversation conversation =
      thinking_mode({message("system", all), message("user", all), message("latest_reminder", all),
                     message("assistant", all, all)});
  conversation.keep_reasoning = true;
  EXPECT_EQ(shown(conversation), "[[BOS]][[SYS]]" + std::string(kEffort75) + all + "[[USR]]" + all +
                                     "[[REM]]" + all + "[[AST]][[TO]]" + all + "[[TC]]" + all +
                                     "[[EOS]][[AST]][[TO]]");
}

TEST(Render, GroundingIsMarkedInTextOfTheModelOnly) {
  const std::string text = "<｜<｜ref｜>a<｜/ref｜><｜ref<｜box｜><｜/box｜>";
  const std::string marked = "<｜[[REF]]a[[/REF]]<｜ref[[BOX]][[/BOX]]";
  Conversation conversation = thinking_mode(
      {message("system", text), message("user", text), {"assistant", {text, text}, text}});
  conversation.keep_reasoning = true;
  EXPECT_EQ(shown(conversation), "[[BOS]][[SYS]]" + std::string(kEffort75) + text + "[[USR]]" +
                                     text + "[[AST]][[TO]]" + marked + "[[TC]]" + marked + "\n\n" +
                                     marked + "[[EOS]][[AST]][[TO]]");
  // Two blocks do not make a spelling together: a separator stands between them.
  EXPECT_EQ(shown(chat_mode({{"assistant", {"<｜re", "f｜>"}, ""}})),
            "[[BOS]][[AST]][[TC]]<｜re\n\nf｜>[[EOS]][[AST]][[TC]]");
}

// How a reply to the conversation begins.
ReplyStart start_of(const Conversation& conversation) {
  const auto rendered = render(conversation);
  EXPECT_TRUE(rendered.has_value());
  return rendered.has_value() ? rendered->start : ReplyStart::kCalls;
}

TEST(Render, ContinuedAnswerHasNoEnd) {
  Conversation talk = thinking_mode({message("user", "u"), message("assistant", "a", "r")});
  talk.continue_last = true;
  EXPECT_EQ(shown(talk),
            "[[BOS]][[SYS]]" + std::string(kEffort75) + "[[USR]]u[[AST]][[TO]]r[[TC]]a");
  EXPECT_EQ(start_of(talk), ReplyStart::kContent);
  talk.messages[1].content.clear();
  EXPECT_EQ(shown(talk), "[[BOS]][[SYS]]" + std::string(kEffort75) + "[[USR]]u[[AST]][[TO]]r");
  EXPECT_EQ(start_of(talk), ReplyStart::kReasoning);
  talk.messages[1].reasoning_content.clear();
  EXPECT_EQ(start_of(talk), ReplyStart::kReasoningLead);
  // Calls close the reasoning as content does.
  talk.messages[1].tool_calls = {{"1", "f", "{}"}};
  EXPECT_EQ(start_of(talk), ReplyStart::kContent);
  EXPECT_TRUE(
      shown(talk).ends_with("[[AST]][[TO]][[TC]]\n\n<[[D]] calls>\n<[[D]] invoke name=\"f\""
                            ">\n\n</[[D]] invoke>\n</[[D]] calls>"));
}

TEST(Render, ContinuedAnswerWithoutThinking) {
  Conversation talk = chat_mode({message("user", "u"), message("assistant", "", "r")});
  talk.messages[1].prefix = true;
  EXPECT_EQ(shown(talk), "[[BOS]][[USR]]u[[AST]][[TC]]");
  EXPECT_EQ(start_of(talk), ReplyStart::kContentLead);
  talk.messages[1].content = {"a"};
  EXPECT_EQ(start_of(talk), ReplyStart::kContent);
  // Where the reply goes on in an answer, no calls are opened.
  talk.tools = {{"f"}};
  talk.tool_choice.kind = ToolChoice::Kind::kRequired;
  EXPECT_EQ(start_of(talk), ReplyStart::kContent);
  EXPECT_TRUE(shown(talk).ends_with("[[TC]]a"));
}

TEST(Render, RequiredCallsAreOpenedOnlyWithoutThinking) {
  Conversation talk = chat_mode({message("user", "u")});
  talk.tools = {{"f"}};
  talk.tool_choice = {ToolChoice::Kind::kNamed, "f"};
  EXPECT_EQ(start_of(talk), ReplyStart::kCalls);
  EXPECT_TRUE(shown(talk).ends_with("[[AST]][[TC]]\n\n<[[D]] calls>\n"));
  talk.thinking.reset();
  EXPECT_EQ(start_of(talk), ReplyStart::kReasoningLead);
  EXPECT_TRUE(shown(talk).ends_with("[[AST]][[TO]]"));
  talk.thinking = "disabled";
  talk.tool_choice = {};
  EXPECT_EQ(start_of(talk), ReplyStart::kContentLead);
}

TEST(Render, ResponseFormatMayStayOutOfThePrompt) {
  Conversation talk = chat_mode({message("user", "u")});
  const std::string without = shown(talk);
  talk.response_format = {ResponseFormat::Kind::kJsonSchema, *Json::parse(R"({"a":1.0})")};
  EXPECT_EQ(shown(talk),
            "[[BOS]][[SYS]]\n\n## Response Format:\n\nYou MUST strictly adhere to the following "
            "schema to reply:\n{\"a\": 1.0}[[USR]]u[[AST]][[TC]]");
  talk.response_format.is_shown = false;
  EXPECT_EQ(shown(talk), without);
}

TEST(Render, FormatIsAttachedWhereOnlyEmptySystemsAre) {
  Conversation talk = thinking_mode({message("system", "")});
  talk.response_format.kind = ResponseFormat::Kind::kJsonObject;
  EXPECT_EQ(shown(talk), "[[BOS]][[SYS]]" + std::string(kEffort75) +
                             "\n\n## Response Format:\n\nYou MUST strictly adhere to the following "
                             "schema to reply:\n{\"type\": \"json_object\"}[[AST]][[TO]]");
}

TEST(Render, ImagesInPromptOrder) {
  Message second{"tool", {Image{0}, "x"}};
  second.tool_call_id = "2";
  Message first{"tool", {Image{1}}};
  first.tool_call_id = "1";
  Message calls = message("assistant", "");
  calls.tool_calls = {{"1", "f", "{}"}, {"2", "f", "{}"}};
  const auto rendered = render(chat_mode(
      {{"system", {Image{2}}}, calls, second, first, {"user", {"<｜deepseek_image｜>"}}}));
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->images, (std::vector<size_t>{2, 1, 0}));
  const auto num_marks = std::count_if(rendered->marks.begin(), rendered->marks.end(),
                                       [](const auto& m) { return m.control == Control::kImage; });
  EXPECT_EQ(num_marks, 3);
}

TEST(Render, ErrorsNameTheField) {
  EXPECT_EQ(shown(chat_mode({})), "error: messages");
  for (const std::string role : {"", "System", "assistant ", "bot\xFF"}) {
    const auto unknown = render(chat_mode({message("user", "a"), message(role, "x")}));
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(unknown.error().field, "messages[1].role");
  }
  EXPECT_EQ(shown({{message("user", "a")}, "maybe", std::nullopt, false}), "error: thinking");
  EXPECT_EQ(shown({{message("user", "a")}, std::nullopt, "0", false}), "error: reasoning_effort");
}

}  // namespace
}  // namespace stoker::chat
