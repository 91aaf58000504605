#include "chat/reply.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "support/chat.h"

namespace stoker::chat {
namespace {

class ReplyTest : public testing::SmallTokenizerTest {
 protected:
  struct Split {
    std::string reasoning;
    std::string content;
    int32_t num_reasoning_tokens = 0;
  };

  // Splits the tokens of a reply, in which spellings of added tokens are those tokens.
  Split split(const std::string& reply, bool thinking) const {
    Split out;
    ReplySplitter splitter(*encoder, thinking);
    for (const int32_t id : tokenizer->encode(reply, Tokenizer::AddedTokens::kMatch)) {
      const auto step = splitter.push(id);
      if (step.hidden) continue;
      (step.channel == Channel::kReasoning ? out.reasoning : out.content) += tokenizer->bytes(id);
    }
    out.num_reasoning_tokens = splitter.num_reasoning_tokens();
    return out;
  }
};

TEST_F(ReplyTest, ReasoningEndsAtItsToken) {
  const Split s = split("2,3</think>7<｜end▁of▁sentence｜>", true);
  EXPECT_EQ(s.reasoning, "2,3");
  EXPECT_EQ(s.content, "7");
  EXPECT_EQ(
      s.num_reasoning_tokens,
      1 + static_cast<int32_t>(tokenizer->encode("2,3", Tokenizer::AddedTokens::kIgnore).size()));
}

TEST_F(ReplyTest, NoReasoningIsOneToken) {
  const Split s = split("</think>7", true);
  EXPECT_EQ(s.reasoning, "");
  EXPECT_EQ(s.content, "7");
  EXPECT_EQ(s.num_reasoning_tokens, 1);
}

TEST_F(ReplyTest, UnfinishedReasoningIsAllReasoning) {
  const Split s = split("22<｜end▁of▁sentence｜>", true);
  EXPECT_EQ(s.reasoning, "22");
  EXPECT_EQ(s.content, "");
  EXPECT_EQ(
      s.num_reasoning_tokens,
      static_cast<int32_t>(
          tokenizer->encode("22<｜end▁of▁sentence｜>", Tokenizer::AddedTokens::kMatch).size()));
}

TEST_F(ReplyTest, RepeatedHeaderIsAbsorbedOnlyAtTheStart) {
  EXPECT_EQ(split("<think>a<think>b</think>c<think>", true).reasoning, "a<think>b");
  EXPECT_EQ(split("<think>a<think>b</think>c<think>", true).content, "c<think>");
  EXPECT_EQ(split("<think></think>c", true).num_reasoning_tokens, 2);
}

TEST_F(ReplyTest, WithoutThinkingAllIsContent) {
  const Split s = split("<think>a</think>b<｜User｜>", false);
  EXPECT_EQ(s.reasoning, "");
  EXPECT_EQ(s.content, "<think>ab");
  EXPECT_EQ(s.num_reasoning_tokens, 0);
}

TEST_F(ReplyTest, SpelledOutMarkersAreText) {
  ReplySplitter splitter(*encoder, true);
  for (const int32_t id : tokenizer->encode("</think>", Tokenizer::AddedTokens::kIgnore)) {
    const auto step = splitter.push(id);
    EXPECT_EQ(step.channel, Channel::kReasoning);
    EXPECT_FALSE(step.hidden);
  }
}

TEST_F(ReplyTest, AnyIdIsTaken) {
  ReplySplitter splitter(*encoder, true);
  for (const int32_t id : {-1, tokenizer->size(), INT32_MAX, INT32_MIN})
    EXPECT_TRUE(splitter.push(id).hidden);
  EXPECT_EQ(splitter.num_reasoning_tokens(), 4);
}

}  // namespace
}  // namespace stoker::chat
