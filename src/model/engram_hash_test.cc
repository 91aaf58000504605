// The Engram hashes against known answers of numpy and of the released model.
#include "model/engram_hash.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

ModelConfig released_engram() {
  ModelConfig config;
  config.engram_layer_ids = {1, 14};
  config.engram_vocab_size = 16'000'000;
  config.engram_max_ngram_size = 4;
  config.engram_n_heads = 8;
  config.engram_compressed_vocab_size = 99092;
  return config;
}

TEST(HashMultipliers, OfTheReleasedModel) {
  EXPECT_EQ(hash_multipliers(1, 4, 99092),
            (std::vector<uint64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(
      hash_multipliers(14, 4, 99092),
      (std::vector<uint64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
}

std::vector<int64_t> rows_of_position(const EngramHash& hash, size_t table,
                                      const std::vector<int32_t>& classes) {
  std::vector<int64_t> rows(24);
  hash.rows(table, classes, rows.data());
  return rows;
}

std::vector<int64_t> columns(const std::vector<int64_t>& rows, const std::vector<size_t>& which) {
  std::vector<int64_t> out;
  for (const size_t column : which) out.push_back(rows[column]);
  return out;
}

TEST(EngramHash, RowsOfTheReleasedModel) {
  const EngramHash hash(released_engram(), 2);
  const std::vector<size_t> which = {0, 7, 8, 16, 23};
  using Rows = std::vector<int64_t>;
  EXPECT_EQ(columns(rows_of_position(hash, 0, {0, -1, -1, -1}), which),
            (Rows{5702652, 121476532, 131476717, 257520185, 380066193}));
  EXPECT_EQ(columns(rows_of_position(hash, 1, {0, -1, -1, -1}), which),
            (Rows{14361964, 120604547, 132225184, 261362261, 372375971}));
  EXPECT_EQ(columns(rows_of_position(hash, 0, {3000, 2000, 1000, 0}), which),
            (Rows{4092044, 120424123, 128488902, 266189895, 379091709}));
  EXPECT_EQ(columns(rows_of_position(hash, 1, {99091, 3000, 2000, 1000}), which),
            (Rows{15375077, 113427231, 138792741, 269839604, 383234265}));
}

TEST(EngramHash, ABlockedTokenBlocksAllOlderOnes) {
  const EngramHash hash(released_engram(), 2);
  const auto rows = rows_of_position(hash, 0, {8, 7, -1, 5});
  EXPECT_EQ(rows[0], 11754974);
  EXPECT_EQ(rows[8], 135605195);
  EXPECT_EQ(rows, rows_of_position(hash, 0, {8, 7, 2, 2}));
}

}  // namespace
}  // namespace stoker
