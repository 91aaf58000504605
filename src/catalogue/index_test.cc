#include "catalogue/index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "snapshot/text_lines.h"

namespace stoker::catalogue {
namespace {

using snapshot::digest_of;
using snapshot::ended_text;

std::vector<IndexEntry> made_entries() {
  std::vector<IndexEntry> entries = {
      {digest_of("1"), "demo"}, {digest_of("2"), ""}, {digest_of("3"), "a b = c\xc3\xa4"}};
  std::ranges::sort(entries, {}, [](const IndexEntry& entry) { return entry.id.bytes; });
  return entries;
}

TEST(Index, IsReadAsItWasWritten) {
  EXPECT_EQ(*parse_index(index_text(made_entries())), made_entries());
  EXPECT_TRUE(parse_index(index_text({}))->empty());
}

TEST(Index, RefusesEveryCutAndEveryChange) {
  std::string text = index_text(made_entries());
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(parse_index(text.substr(0, size)));
  for (char& c : text) {
    c = static_cast<char>(c ^ 1);
    EXPECT_FALSE(parse_index(text));
    c = static_cast<char>(c ^ 1);
  }
  EXPECT_FALSE(parse_index(text + "\n"));
}

// Under a digest that is right, too.
TEST(Index, RefusesHostileLines) {
  const std::string id = digest_of("1").hex();
  const std::string line = "snapshot=" + id + " demo\n";
  EXPECT_TRUE(parse_index(ended_text("format=1\n" + line)));
  for (const std::string& body : std::vector<std::string>{
           "format=1\n" + line + line, std::string("format=1\nsnapshot=\n"),
           "format=1\nsnapshot=" + id + "\n",
           "format=1\nsnapshot=../../../../etc/passwd000000 demo\n",
           "format=1\nsnapshot=" + id + "/demo\n", "format=1\nsnapshot=" + id + " a\tb\n",
           "format=1\nsnapshot=" + id + " \xff\n", "format=1\nother=" + id + " demo\n",
           "format=1\nsnapshot=" + id + " " + std::string(257, 'a') + "\n",
           "format=1\nsnapshot=" + id + " demo", line, std::string()}) {
    const auto index = parse_index(ended_text(body));
    ASSERT_FALSE(index) << body;
    EXPECT_EQ(index.error().code, ErrorCode::kCorruptData);
  }
  EXPECT_EQ(parse_index(ended_text("format=2\n")).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace stoker::catalogue
