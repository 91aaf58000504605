#include "chat/turns.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stoker::chat {
namespace {

Message said(std::string role, std::string text) {
  return {std::move(role), {std::move(text)}};
}

Message result(std::string id, std::string text) {
  Message message = said("tool", std::move(text));
  message.tool_call_id = std::move(id);
  return message;
}

Message calling(const std::vector<std::string>& ids) {
  Message message = said("assistant", "");
  for (const std::string& id : ids) message.tool_calls.push_back({id, "f", "{}"});
  return message;
}

// Turns by the first letter of their role, with the texts of their parts; results in brackets.
std::string folded(std::vector<Message> messages, bool continue_last = false) {
  Conversation conversation{std::move(messages)};
  conversation.continue_last = continue_last;
  const auto turns = turns_of(conversation);
  if (!turns.has_value()) return "error: " + turns.error().field;
  std::string out;
  for (const Turn& turn : *turns) {
    out += "SUATL"[static_cast<size_t>(turn.role)];
    for (const Part& part : turn.parts) {
      const std::string& text = std::get<std::string>(part.message->content.at(0));
      out += part.is_result ? "[" + text + "]" : "(" + text + ")";
    }
  }
  return out;
}

TEST(Turns, ResultsAndUsersAreOneTurn) {
  EXPECT_EQ(folded({said("user", "a"), result("1", "b"), said("user", "c"), said("assistant", "d"),
                    result("1", "e"), said("function", "f")}),
            "U(a)[b](c)A(d)U[e][f]");
  EXPECT_EQ(folded({said("user", "a"), said("latest_reminder", "r"), said("user", "b")}),
            "U(a)L(r)U(b)");
}

TEST(Turns, ResultsStandInTheOrderOfTheirCalls) {
  EXPECT_EQ(folded({calling({"a", "b", "c"}), result("c", "3"), said("user", "x"), result("b", "2"),
                    result("a", "1")}),
            "A()U[1](x)[2][3]");
}

TEST(Turns, UnknownResultsCountAsTheFirstAndKeepTheirOrder) {
  EXPECT_EQ(folded({calling({"a", "b"}), result("b", "2"), result("y", "?"), result("a", "1"),
                    result("z", "!")}),
            "A()U[?][1][!][2]");
}

TEST(Turns, OrderHoldsUntilTheNextCalls) {
  EXPECT_EQ(folded({calling({"a", "b"}), said("assistant", "x"), result("b", "2"), result("a", "1"),
                    calling({"b", "a"}), result("a", "4"), result("b", "3")}),
            "A()A(x)U[1][2]A()U[3][4]");
  EXPECT_EQ(folded({said("user", "u"), result("b", "2"), result("a", "1")}), "U(u)[2][1]");
}

TEST(Turns, RepeatedIdsTakeTheLastCall) {
  EXPECT_EQ(folded({calling({"a", "b", "a"}), result("a", "1"), result("b", "2")}), "A()U[2][1]");
}

TEST(Turns, ManyResults) {
  std::vector<std::string> ids;
  std::vector<Message> messages(1);
  for (int i = 0; i < 20000; ++i) {
    ids.push_back(std::to_string(i));
    messages.push_back(result(std::to_string(19999 - i), std::to_string(19999 - i)));
  }
  messages[0] = calling(ids);
  Conversation conversation{std::move(messages)};
  const auto turns = turns_of(conversation);
  ASSERT_TRUE(turns.has_value());
  ASSERT_EQ(turns->at(1).parts.size(), 20000U);
  for (size_t i = 0; i < 20000; ++i)
    ASSERT_EQ(turns->at(1).parts[i].message->tool_call_id, std::to_string(i));
}

TEST(Turns, OnlyTheLastAnswerIsContinued) {
  Message prefix = said("assistant", "b");
  prefix.prefix = true;
  EXPECT_EQ(folded({said("user", "a"), prefix}), "U(a)A(b)");
  EXPECT_EQ(folded({prefix, said("user", "a")}), "error: messages[0].prefix");
  Message user = said("user", "a");
  user.prefix = true;
  EXPECT_EQ(folded({user}), "error: messages[0].prefix");
  EXPECT_EQ(folded({said("user", "a")}, true), "error: messages[0].role");
  EXPECT_EQ(folded({said("user", "a"), said("assistant", "b")}, true), "U(a)A(b)");
}

TEST(Turns, ImagesOfTheAssistantAreRefused) {
  EXPECT_EQ(folded({{"assistant", {"a", Image{0}}}}), "error: messages[0].content");
}

}  // namespace
}  // namespace stoker::chat
