#include "base/json.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

std::string again(std::string_view text) {
  const auto json = Json::parse(text);
  return json ? json->dump() : "error: " + json.error().message;
}

TEST(Json, KeepsOrderAndNumbersAsTheyStand) {
  EXPECT_EQ(again(R"({"b": 1, "a": [true, null, -0.50, 1e5], "c": {}})"),
            R"({"b":1,"a":[true,null,-0.50,1e5],"c":{}})");
  EXPECT_EQ(again("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(again("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(again(R"("\u00e9\ud83d\ude00\n\u0001\/")"), "\"é😀\\n\\u0001/\"");
}

TEST(Json, ReadsNumbersOnlyWhereTheyFit) {
  const auto json = Json::parse("[9223372036854775807, 9223372036854775808, 1.0, -1, 1e400]");
  EXPECT_FALSE(json);  // 1e400 is out of range
  const auto numbers = Json::parse("[9223372036854775807, 9223372036854775808, 1.0, -1]");
  ASSERT_TRUE(numbers);
  const auto& items = numbers->items();
  EXPECT_EQ(items[0].as_int(), INT64_MAX);
  EXPECT_FALSE(items[1].as_int());
  EXPECT_EQ(items[1].as_unsigned(), uint64_t{1} << 63);
  EXPECT_FALSE(items[2].as_int());
  EXPECT_EQ(items[2].as_double(), 1.0);
  EXPECT_FALSE(items[3].as_unsigned());
  EXPECT_EQ(items[3].as_int(), -1);
}

TEST(Json, LastOfRepeatedKeysWinsAtTheFirstPlace) {
  EXPECT_EQ(again(R"({"a": 1, "b": 2, "a": 3})"), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  const auto json = Json::parse(many + "\"k7\":1,\"k99\":2}");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->members().size(), 100U);
  EXPECT_EQ(json->find("k7")->as_int(), 1);
  EXPECT_EQ(json->find("k99")->as_int(), 2);
  EXPECT_FALSE(Json::parse(R"({"a": 1, "a": 3})", {.repeated_keys_allowed = false}));
}

TEST(Json, LimitsDepthAndCount) {
  EXPECT_TRUE(Json::parse(std::string(128, '[') + std::string(128, ']')));
  EXPECT_FALSE(Json::parse(std::string(129, '[') + std::string(129, ']')));
  EXPECT_FALSE(Json::parse(std::string(1 << 20, '[')));
  EXPECT_FALSE(Json::parse("[1,2,3,4]", {.max_values = 4}));
  EXPECT_TRUE(Json::parse("[1,2,3,4]", {.max_values = 5}));
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", " ", "{:", "{", "[1,]", "nul", "NaN", "1 2", "\"a", "\"\x80\"",
                           "\"\xed\xa0\x80\"", "'a'", "{1:2}", "\"\n\"", "[\"a\" 1]"}) {
    EXPECT_FALSE(Json::parse(text)) << text;
  }
}

TEST(Json, UnpairedSurrogatesBecomeReplacements) {
  EXPECT_EQ(again(R"("a\ud83d")"), "\"a\uFFFD\"");
  EXPECT_EQ(again(R"("\ude00\ud83d\ude00")"), "\"\uFFFD😀\"");
  EXPECT_EQ(again(R"("\ud83d\ud83d\ude00")"), "\"\uFFFD😀\"");
  EXPECT_EQ(again(R"("\\ud83d")"), R"("\\ud83d")");  // an escaped backslash and letters
}

TEST(Json, QuoteRepairsBytes) {
  EXPECT_EQ(json_quote("a\"\\\x01\t\xff\x7f"), "\"a\\\"\\\\\\u0001\\t\uFFFD\x7f\"");
}

TEST(Json, ZeroBytesEndNoText) {
  for (const std::string_view text : {std::string_view("1\0", 2), std::string_view("{}\0x", 4),
                                      std::string_view("\0", 1), std::string_view("\"\0\"", 3)}) {
    const auto json = Json::parse(text);
    ASSERT_FALSE(json.has_value());
    EXPECT_EQ(json.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(Json::parse("\"\\u0000\"").has_value());
}

}  // namespace
}  // namespace stoker
