#include "snapshot/section.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace stoker::snapshot {
namespace {

Section test_section() {
  Section section;
  section.kind = "weights.0-x_y";
  section.bytes = 3 * kChunkBytes + 1;
  section.digest = digest_of("object");
  section.table_digest = digest_of("table");
  section.key = digest_of("key");
  return section;
}

// A key file with other lines and an end= that is right for them.
std::string resealed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  text.erase(text.rfind("end="));
  return text + "end=" + digest_of(text).hex() + "\n";
}

TEST(Section, KindsAreShortAndPlain) {
  EXPECT_TRUE(is_kind("weights.0-x_y"));
  EXPECT_TRUE(is_kind(std::string(64, 'a')));
  for (const char* wrong : {"", "Weights", "a/b", "a b", "a\n"}) EXPECT_FALSE(is_kind(wrong));
  EXPECT_FALSE(is_kind(std::string(65, 'a')));
}

TEST(Section, CountsChunks) {
  Section section = test_section();
  EXPECT_EQ(section.num_chunks(), 4);
  section.bytes = kChunkBytes;
  EXPECT_EQ(section.num_chunks(), 1);
  section.bytes = 1;
  EXPECT_EQ(section.num_chunks(), 1);
}

TEST(KeyFile, IsReadAsWritten) {
  const Section section = test_section();
  const auto read = parse_key_file(key_file_text(section));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, section);
}

TEST(KeyFile, IsTheTextOfTheDocument) {
  const std::string lines =
      "format=1\nobject=weights.0-x_y-" + digest_of("object").hex() +
      "\nbytes=12582913\nchunk_bytes=4194304\ntable=" + digest_of("table").hex() +
      "\nkey=" + digest_of("key").hex() + "\n";
  EXPECT_EQ(key_file_text(test_section()), lines + "end=" + digest_of(lines).hex() + "\n");
}

TEST(KeyFile, EveryCutAndEveryChangedBitIsFound) {
  const std::string text = key_file_text(test_section());
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(parse_key_file(text.substr(0, n))) << n;
    for (int bit = 0; bit < 8; ++bit) {
      std::string spoiled = text;
      spoiled[n] = static_cast<char>(spoiled[n] ^ (1 << bit));
      EXPECT_FALSE(parse_key_file(spoiled)) << n;
    }
  }
  EXPECT_FALSE(parse_key_file(text + "\n"));
  EXPECT_FALSE(parse_key_file(text + text));
  EXPECT_FALSE(parse_key_file(std::string(1 << 20, 'x')));
}

TEST(KeyFile, AnotherFormatIsToldFromDamage) {
  const auto read = parse_key_file(resealed(key_file_text(test_section()), "format=1", "format=2"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
}

// Each with the digest that makes the file believable.
TEST(KeyFile, WildValuesAreRefused) {
  const std::string text = key_file_text(test_section());
  const std::string bytes = "bytes=" + std::to_string(test_section().bytes);
  const std::string object = "object=" + test_section().object();
  const std::vector<std::pair<std::string, std::string>> changes = {
      {bytes, "bytes=0"},
      {bytes, "bytes=-1"},
      {bytes, "bytes=281474976710657"},
      {bytes, "bytes=99999999999999999999"},
      {bytes, "bytes=0x10"},
      {bytes, "bytes=+5"},
      {bytes, "bytes=05"},
      {bytes, "bytes="},
      {bytes, "bytes"},
      {bytes + "\n", ""},
      {bytes, bytes + "\n" + bytes},
      {"chunk_bytes=4194304", "chunk_bytes=4096"},
      {object, "object=../../x-" + test_section().digest.hex()},
      {object, "object=-" + test_section().digest.hex()},
      {object, "object=" + test_section().digest.hex()},
      {object, "object=weights"},
      {object, "object=" + std::string(65, 'a') + "-" + test_section().digest.hex()},
      {"table=", "table=0"},
      {"\nkey=", "\nother=1\nkey="},
      {"format=1\n", ""},
      {"format=1", "format=01"},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_FALSE(parse_key_file(resealed(text, from, to))) << from << " -> " << to;
  }
}

}  // namespace
}  // namespace stoker::snapshot
