#include "snapshot/digest.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker::snapshot {
namespace {

// Printed by `xxhsum -H2`.
TEST(Digest, IsWhatXxhsumPrints) {
  EXPECT_EQ(digest_of("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of("stoker").hex(), "a7e7c37e9fb625b3bfcfa6131ec4526c");
}

TEST(Digest, HexadecimalThereAndBack) {
  const Digest digest = digest_of("stoker");
  EXPECT_EQ(Digest::from_hex(digest.hex()), digest);
  const std::string hex = digest.hex();
  EXPECT_FALSE(Digest::from_hex(hex.substr(1)));
  EXPECT_FALSE(Digest::from_hex(hex + "0"));
  for (const char wrong : {'A', 'g', '/', ':', '`', ' ', '\0'}) {
    std::string spoiled = hex;
    spoiled[7] = wrong;
    EXPECT_FALSE(Digest::from_hex(spoiled)) << wrong;
  }
}

TEST(Digest, ChunksKnowTheirPlace) {
  const std::vector<uint8_t> chunk(1000, 7);
  EXPECT_EQ(chunk_digest(chunk, 3), chunk_digest(chunk, 3));
  EXPECT_NE(chunk_digest(chunk, 3), chunk_digest(chunk, 4));
}

TEST(Hasher, PiecesAreAsGoodAsTheWhole) {
  const std::string text(100'000, 'x');
  Hasher hasher;
  for (size_t at = 0; at < text.size(); at += 777) {
    hasher.add(bytes_of(std::string_view(text).substr(at, 777)));
  }
  EXPECT_EQ(hasher.digest(), digest_of(text));
  const Hasher moved = std::move(hasher);
  EXPECT_EQ(moved.digest(), digest_of(text));
}

TEST(Hasher, PartsDoNotRunIntoEachOther) {
  EXPECT_NE(Hasher().add_text("ab").add_text("c").digest(),
            Hasher().add_text("a").add_text("bc").digest());
  EXPECT_NE(Hasher().add_text("a").add_text("").digest(), Hasher().add_text("a").digest());
  EXPECT_NE(Hasher().add_number(1).digest(), Hasher().add_number(2).digest());
}

}  // namespace
}  // namespace stoker::snapshot
