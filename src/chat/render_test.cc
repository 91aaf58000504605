#include "chat/render.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/chat.h"

namespace stoker::chat {
namespace {

using testing::golden_chat_file;
using testing::golden_chats;
using testing::golden_conversation;
using testing::GoldenChat;
using testing::kNumGoldenChats;

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
  EXPECT_EQ(num_special, 33U);  // the file does not tell them for five that were made by rewriting
}

// The vendor's library refuses these requests; of those within reach we refuse only what cannot be
// rendered.
TEST(Render, GoldenRejections) {
  const std::map<std::string, bool> refused = {{"no messages", true},
                                               {"assistant without content and calls", false},
                                               {"role developer", false},
                                               {"integer effort", false}};
  const Json file = golden_chat_file();
  size_t num_within_reach = 0;
  for (const Json& rejected : file.find("rejected")->items()) {
    const auto conversation = golden_conversation(*rejected.find("request"));
    if (!conversation.has_value()) continue;
    ++num_within_reach;
    const std::string& name = rejected.find("name")->as_string();
    SCOPED_TRACE(name);
    ASSERT_TRUE(refused.contains(name));
    EXPECT_EQ(render(*conversation).has_value(), !refused.at(name));
  }
  EXPECT_EQ(num_within_reach, refused.size());
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

TEST(Render, ErrorsNameTheField) {
  EXPECT_EQ(shown(chat_mode({})), "error: messages");
  const auto tool =
      render(chat_mode({message("system", ""), message("user", "a"), message("tool", "x")}));
  ASSERT_FALSE(tool.has_value());
  EXPECT_EQ(tool.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(tool.error().field, "messages[2].role");
  const auto function = render(chat_mode({message("function", "x")}));
  ASSERT_FALSE(function.has_value());
  EXPECT_EQ(function.error().code, ErrorCode::kUnsupported);
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
