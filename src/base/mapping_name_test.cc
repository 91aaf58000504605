#include "base/mapping_name.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

TEST(MappingName, IsFoundByAnyAddressInIt) {
  const std::vector<char> memory(300);
  EXPECT_FALSE(find_mapping(memory.data()));
  {
    MappingName name(memory.data() + 100, 100, "objects/weights-1");
    const MappingName moved = std::move(name);
    for (const size_t at : {size_t{0}, size_t{42}, size_t{99}}) {
      const auto found = find_mapping(memory.data() + 100 + at);
      ASSERT_TRUE(found) << at;
      EXPECT_STREQ(found->name, "objects/weights-1");
      EXPECT_EQ(found->offset, at);
    }
    EXPECT_FALSE(find_mapping(memory.data() + 99));
    EXPECT_FALSE(find_mapping(memory.data() + 200));
  }
  EXPECT_FALSE(find_mapping(memory.data() + 100));
}

TEST(MappingName, OfALongOneTheEndStays) {
  const char memory = 0;
  const std::string path = "/" + std::string(5000, 'a') + "/model-00001.safetensors";
  const MappingName name(&memory, 1, path);
  const std::string found = find_mapping(&memory)->name;
  EXPECT_LT(found.size(), 300U);
  EXPECT_TRUE(path.ends_with(found));
}

TEST(MappingName, BeyondItsRoomThereIsNone) {
  const std::vector<char> memory(2000);
  std::vector<MappingName> names;
  for (const char& byte : memory) names.emplace_back(&byte, 1, "a");
  EXPECT_TRUE(find_mapping(&memory.front()));
  EXPECT_FALSE(find_mapping(&memory.back()));
  names.clear();
  const MappingName again(&memory.back(), 1, "b");
  EXPECT_STREQ(find_mapping(&memory.back())->name, "b");
}

}  // namespace
}  // namespace stoker
