#include "server/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Keys, AreGivenWithOrWithoutAName) {
  const auto plain = parse_api_key("sk-123456", "key-1");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->name, "key-1");
  EXPECT_EQ(plain->secret, "sk-123456");
  const auto named = parse_api_key("team_a.x-1=c2VjcmV0==", "key-1");
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->name, "team_a.x-1");
  EXPECT_EQ(named->secret, "c2VjcmV0==");
}

TEST(Keys, BadOnesAreRefusedAndNotShown) {
  for (const std::string& text :
       {std::string(), std::string("=hidden99"), std::string("a b=hidden99"),
        std::string("hidden99=="), std::string("a=hid"), std::string("hidd en99"),
        std::string("a=hidd\nen99"), std::string(1025, 'x'), std::string(65, 'n') + "=hidden99"}) {
    const auto key = parse_api_key(text, "key-1");
    ASSERT_FALSE(key.has_value()) << text;
    EXPECT_EQ(key.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(key.error().message, Not(HasSubstr("hid")));
  }
}

TEST(Keys, RingKnowsItsOwnAlone) {
  const KeyRing ring({{"a", "first"}, {"b", "second"}});
  EXPECT_FALSE(ring.empty());
  ASSERT_NE(ring.name_of("first"), nullptr);
  EXPECT_EQ(*ring.name_of("first"), "a");
  EXPECT_EQ(*ring.name_of("second"), "b");
  for (const char* wrong : {"", "firs", "first ", "First", "firstsecond"})
    EXPECT_EQ(ring.name_of(wrong), nullptr) << wrong;
  EXPECT_TRUE(KeyRing().empty());
  EXPECT_EQ(KeyRing().name_of("first"), nullptr);
}

}  // namespace
}  // namespace stoker
