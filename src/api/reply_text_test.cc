#include "api/reply_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/chat.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

constexpr const char* kCalls =
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"tide\">\n"
    "<｜DSML｜ parameter name=\"at\" string=\"true\">Hull</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"h\" string=\"false\">6</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"now\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";

// All that came of a reply.
struct Read {
  Event all;  // its pieces joined
  CollectedCalls calls;
  std::vector<TokenPart> parts;
  std::vector<int64_t> offsets;
  bool is_over = false;
  int32_t num_reasoning = 0;
  std::string unfinished;
};

class ReplyTextTest : public testing::SmallTokenizerTest {
 protected:
  std::vector<int32_t> ids_of(std::string_view reply) const {
    return tokenizer->encode(reply, Tokenizer::AddedTokens::kMatch);
  }

  // Reads tokens one by one, an event for each, up to the end.
  Read read(const std::vector<int32_t>& ids, const ReplyFormat& format,
            const ReplyText::Stops& stops = {},
            chat::ReplyEnd end = chat::ReplyEnd::kEndOfText) const {
    Read out;
    ReplyText text(&*tokenizer, format, stops);
    const auto add = [&](Event& event) {
      out.all.ids.insert(out.all.ids.end(), event.ids.begin(), event.ids.end());
      out.all.text += event.text;
      out.all.reasoning += event.reasoning;
      out.calls.add(event.calls);
      for (const TokenDetail& detail : event.details) {
        out.parts.push_back(detail.part);
        out.offsets.push_back(detail.text_offset);
      }
      EXPECT_GE(event.num_shown, out.all.num_shown) << "what is shown stays so";
      EXPECT_LE(static_cast<size_t>(event.num_shown), out.all.ids.size());
      out.all.num_shown = event.num_shown;
    };
    for (const int32_t id : ids) {
      if (text.is_over()) break;
      Event event;
      text.push(id, false, true, PositionLogprobs{}, event);
      text.count_shown(false, event);
      add(event);
    }
    Event last;
    text.finish(end, true, last);
    text.count_shown(true, last);
    add(last);
    out.is_over = text.is_over();
    out.num_reasoning = text.num_reasoning_tokens();
    out.unfinished = text.unfinished_call();
    return out;
  }

  Read read(std::string_view reply, const ReplyFormat& format, const ReplyText::Stops& stops = {},
            chat::ReplyEnd end = chat::ReplyEnd::kEndOfText) const {
    return read(ids_of(reply), format, stops, end);
  }
};

TEST_F(ReplyTextTest, PartsOfAChat) {
  const std::string reply = std::string("Let me see.</think>Well,") + kCalls;
  const std::vector<int32_t> ids = ids_of(reply);
  const Read out = read(ids, {ReplyStart::kThinking, true});
  EXPECT_EQ(out.all.reasoning, "Let me see.");
  EXPECT_EQ(out.all.text, "Well,");
  ASSERT_EQ(out.calls.calls.size(), 2U);
  EXPECT_EQ(out.calls.calls[0].name, "tide");
  EXPECT_EQ(out.calls.calls[0].arguments, R"({"at": "Hull", "h": 6})");
  EXPECT_EQ(out.calls.calls[1].name, "now");
  EXPECT_EQ(out.calls.calls[1].arguments, "{}");
  EXPECT_FALSE(out.calls.is_cut);
  EXPECT_EQ(out.all.ids, ids);
  EXPECT_EQ(out.all.num_shown, static_cast<int32_t>(ids.size()));
  // Tokens of each part, in order: together they are its text.
  std::string reasoning, content;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (out.parts[i] == TokenPart::kReasoning) reasoning += tokenizer->bytes(ids[i]);
    if (out.parts[i] == TokenPart::kContent) content += tokenizer->bytes(ids[i]);
  }
  EXPECT_EQ(reasoning, "Let me see.");
  EXPECT_EQ(content, "Well,");
  EXPECT_EQ(out.num_reasoning, static_cast<int32_t>(ids_of("Let me see.</think>").size()));
}

TEST_F(ReplyTextTest, WithoutToolsMarkupOfCallsIsText) {
  const Read out = read(std::string("</think>") + kCalls, {ReplyStart::kThinking});
  EXPECT_EQ(out.all.text, std::string(kCalls).substr(2)) << "but for the leading line feeds";
  EXPECT_TRUE(out.calls.calls.empty());
  const Read text = read(std::string("a</think>") + kCalls, {ReplyStart::kText});
  EXPECT_EQ(text.all.text, std::string("a</think>") + kCalls);
}

TEST_F(ReplyTextTest, StopStringsAreOfTheContentAlone) {
  const std::string reply = std::string("Hull</think>at Hul Hull more") + kCalls;
  const Read out = read(reply, {ReplyStart::kThinking, true}, {{"Hull"}});
  EXPECT_EQ(out.all.reasoning, "Hull");
  EXPECT_EQ(out.all.text, "at Hul ");
  EXPECT_TRUE(out.is_over);
  EXPECT_TRUE(out.calls.calls.empty());
  const Read shown = read(reply, {ReplyStart::kThinking, true}, {{"Hull"}, true});
  EXPECT_EQ(shown.all.text, "at Hul Hull");
  const Read calls = read(std::string("x") + kCalls, {ReplyStart::kChat, true}, {{"Hull"}});
  EXPECT_FALSE(calls.is_over);
  EXPECT_EQ(calls.calls.calls.size(), 2U);
}

TEST_F(ReplyTextTest, StopStringsMayBeOfAllThatWasWritten) {
  const ReplyFormat format{ReplyStart::kThinking, true};
  const auto everywhere = [](const char* stop, bool is_shown = false) {
    return ReplyText::Stops{{stop}, is_shown, true};
  };
  const std::string reply = std::string("Let me see</think>Well, see") + kCalls;
  Read out = read(reply, format, everywhere("me s"));
  EXPECT_EQ(out.all.reasoning, "Let ");
  EXPECT_EQ(out.all.text, "");
  EXPECT_TRUE(out.is_over);
  EXPECT_TRUE(out.calls.calls.empty());
  out = read(reply, format, everywhere("me s", true));
  EXPECT_EQ(out.all.reasoning, "Let me s");
  out = read(reply, format, everywhere("ee</think>Wel"));
  EXPECT_EQ(out.all.reasoning, "Let me s") << "over the markup too";
  EXPECT_EQ(out.all.text, "");
  out = read(reply, format, everywhere("l, see"));
  EXPECT_EQ(out.all.reasoning, "Let me see");
  EXPECT_EQ(out.all.text, "Wel");
  out = read(reply, format, everywhere("ll<"));
  EXPECT_EQ(out.all.text, "Well, see");
  EXPECT_TRUE(out.is_over);
  ASSERT_EQ(out.calls.calls.size(), 1U);
  EXPECT_EQ(out.calls.calls[0].arguments, R"({"at": "Hu)") << "as far as it came";
  EXPECT_EQ(out.unfinished, "");
  out = read(reply, format, everywhere("never"));
  EXPECT_FALSE(out.is_over);
  EXPECT_EQ(out.all.reasoning, "Let me see");
  EXPECT_EQ(out.all.text, "Well, see");
  EXPECT_EQ(out.calls.calls.size(), 2U);
  const Read plain = read(reply, format);
  EXPECT_EQ(out.parts, plain.parts);
  EXPECT_EQ(out.offsets, plain.offsets);
  EXPECT_EQ(read("a Hull", {ReplyStart::kText}, everywhere("Hull")).all.text, "a ");
}

TEST_F(ReplyTextTest, OneCallMayBeTheEnd) {
  const std::vector<int32_t> ids = ids_of(std::string("x") + kCalls);
  ReplyFormat format{ReplyStart::kChat, true, true};
  const Read out = read(ids, format);
  EXPECT_TRUE(out.is_over);
  ASSERT_EQ(out.calls.calls.size(), 1U);
  EXPECT_FALSE(out.calls.is_cut);
  EXPECT_LT(out.all.ids.size(), ids.size());
}

TEST_F(ReplyTextTest, BehindTheCallsTheAnswerSoonEnds) {
  const std::vector<int32_t> calls = ids_of(kCalls);
  std::vector<int32_t> ids = calls;
  ids.insert(ids.end(), 100, ids_of("x").front());
  const Read out = read(ids, {ReplyStart::kChat, true});
  EXPECT_TRUE(out.is_over);
  EXPECT_EQ(out.all.ids.size(), calls.size() + 16);
  EXPECT_EQ(out.all.text, "");
}

TEST_F(ReplyTextTest, ACallThatIsCutOffIsNotLost) {
  const std::string whole = kCalls;
  const std::string cut = whole.substr(0, whole.find("Hull") + 2);
  Read out = read("x" + cut, {ReplyStart::kChat, true});
  EXPECT_EQ(out.all.text, "x");
  EXPECT_TRUE(out.calls.is_cut);
  EXPECT_EQ(out.unfinished, cut);
  Finish finish;
  finish.unfinished_call = out.unfinished;
  EXPECT_EQ(out.calls.finish(finish), cut);
  EXPECT_TRUE(out.calls.calls.empty());
  const Read at_length = read(cut, {ReplyStart::kChat, true}, {}, chat::ReplyEnd::kLength);
  EXPECT_EQ(at_length.unfinished, "");
  ASSERT_EQ(at_length.calls.calls.size(), 1U);
  EXPECT_EQ(at_length.calls.calls[0].arguments, R"({"at": "Hu)");
}

TEST_F(ReplyTextTest, WhatMayBecomeMarkupWaits) {
  ReplyText text(&*tokenizer, {ReplyStart::kChat, true}, {});
  Event event;
  for (const int32_t id : ids_of("Hi\n\n<")) text.push(id, false, true, PositionLogprobs{}, event);
  text.count_shown(false, event);
  EXPECT_EQ(event.text, "Hi");
  const size_t num_told = event.ids.size();
  EXPECT_LT(num_told, ids_of("Hi\n\n<").size());
  EXPECT_EQ(event.num_shown, static_cast<int32_t>(num_told));
  for (const int32_t id : ids_of("b>")) text.push(id, false, true, PositionLogprobs{}, event);
  text.count_shown(false, event);
  EXPECT_EQ(event.text, "Hi\n\n<b>");
  EXPECT_EQ(event.num_shown, static_cast<int32_t>(event.ids.size()));
}

// Tokens that are parts of one character begin at the same character.
TEST_F(ReplyTextTest, OffsetsCountCharacters) {
  const std::vector<int32_t> ids = ids_of("añ🦑b");
  for (const ReplyStart start : {ReplyStart::kText, ReplyStart::kChat}) {
    const Read out = read(ids, {start});
    EXPECT_EQ(out.all.text, "añ🦑b");
    std::string so_far;
    std::vector<int64_t> expected;
    for (const int32_t id : ids) {
      int64_t whole = 0;  // characters that are complete before it
      for (size_t i = 0; i < so_far.size();) {
        const auto lead = static_cast<uint8_t>(so_far[i]);
        i += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (i <= so_far.size()) ++whole;
      }
      expected.push_back(whole);
      so_far += tokenizer->bytes(id);
    }
    EXPECT_EQ(out.offsets, expected);
  }
}

TEST_F(ReplyTextTest, HiddenTokensHaveNoText) {
  ReplyText text(&*tokenizer, {ReplyStart::kChat}, {});
  Event event;
  const int32_t id = ids_of("a").front();
  text.push(id, false, true, PositionLogprobs{}, event);
  text.push(id, true, true, PositionLogprobs{}, event);
  text.push(id, false, true, PositionLogprobs{}, event);
  text.count_shown(false, event);
  EXPECT_EQ(event.text, "aa");
  ASSERT_EQ(event.details.size(), 3U);
  EXPECT_EQ(event.details[1].part, TokenPart::kHidden);
  EXPECT_EQ(event.num_shown, 3);
}

TEST_F(ReplyTextTest, WithoutATokenizerTokensAreTold) {
  ReplyText text(nullptr, {}, {});
  Event event;
  text.push(7, false, true, std::nullopt, event);
  text.count_shown(false, event);
  EXPECT_THAT(event.ids, ElementsAre(7));
  EXPECT_EQ(event.num_shown, 1);
  EXPECT_EQ(event.text, "");
  EXPECT_TRUE(event.details.empty());
}

}  // namespace
}  // namespace stoker
