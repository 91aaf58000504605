#include "chat/thinking.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace stoker::chat {
namespace {

using Field = std::optional<std::string>;

struct Row {
  Field thinking;
  Field effort;
  bool enabled;
  int32_t number;
};

TEST(Thinking, EveryRowOfTheTable) {
  const Field none;
  const std::vector<Row> rows = {
      {"disabled", none, false, 0}, {"disabled", "max", false, 0}, {"disabled", "none", false, 0},
      {"disabled", "42", false, 0}, {"enabled", "none", true, 75}, {"adaptive", "none", true, 75},
      {none, "none", false, 0},     {none, "minimal", true, 50},   {none, "low", true, 50},
      {none, "medium", true, 75},   {none, "high", true, 75},      {none, "xhigh", true, 75},
      {none, "max", true, 100},     {none, "ultra", true, 100},    {none, "1", true, 1},
      {none, "42", true, 42},       {none, "100", true, 100},      {none, none, true, 75},
      {"enabled", none, true, 75},  {"adaptive", none, true, 75},  {"enabled", "low", true, 50},
      {"adaptive", "7", true, 7},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.thinking.value_or("-") + " " + row.effort.value_or("-"));
    const auto thinking = resolve_thinking(row.thinking, row.effort);
    ASSERT_TRUE(thinking.has_value()) << thinking.error().message;
    EXPECT_EQ(thinking->enabled, row.enabled);
    EXPECT_EQ(thinking->effort, row.number);
  }
}

TEST(Thinking, AnyOtherEffortNamesItsField) {
  for (const std::string effort : {"", "0", "101", "1.5", "true", "-1", "+5", "042", " 5", "5 ",
                                   "1e1", "High", "4294967297", "99999999999999999999", "none\n"}) {
    for (const Field& thinking : {Field(), Field("disabled"), Field("enabled")}) {
      SCOPED_TRACE(effort);
      const auto result = resolve_thinking(thinking, effort);
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(result.error().field, "reasoning_effort");
    }
  }
}

TEST(Thinking, AnyOtherThinkingNamesItsField) {
  for (const std::string thinking : {"", "on", "true", "Enabled"}) {
    const auto result = resolve_thinking(thinking, "low");
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().field, "thinking");
  }
}

}  // namespace
}  // namespace stoker::chat
