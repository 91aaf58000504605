#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

constexpr int32_t kNumBytes = 256;

std::array<int32_t, 256> plain_byte_ids() {
  std::array<int32_t, 256> ids{};
  for (int32_t i = 0; i < kNumBytes; ++i) ids[static_cast<size_t>(i)] = i;
  return ids;
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view piece) {
  Bpe::Workspace workspace;
  std::vector<int32_t> ids;
  bpe.encode(piece, workspace, ids);
  return ids;
}

// The definition, word for word.
std::vector<int32_t> encode_plainly(const std::vector<Bpe::Merge>& merges, std::string_view piece) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = i;
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(static_cast<unsigned char>(byte));
  for (;;) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rank = ranks.find({ids[i], ids[i + 1]});
      if (rank == ranks.end() || rank->second >= best_rank) continue;
      best_rank = rank->second;
      best = i;
    }
    if (best_rank == merges.size()) return ids;
    ids[best] = merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// Tables over three letters in any order of ranks, also such as no training makes: a merge may rank
// before those that make its parts.
std::vector<Bpe::Merge> random_merges(std::mt19937& random, int32_t num_merges) {
  std::vector<std::string> symbols = {"a", "b", "c"};
  std::map<std::string, int32_t> ids = {{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
  std::map<std::pair<int32_t, int32_t>, int32_t> pairs;
  for (int32_t i = 0; i < num_merges; ++i) {
    const std::string left = symbols[random() % symbols.size()];
    const std::string right = symbols[random() % symbols.size()];
    const auto [entry, is_new] =
        ids.emplace(left + right, kNumBytes + static_cast<int32_t>(ids.size()));
    if (is_new) symbols.push_back(left + right);
    pairs[{ids[left], ids[right]}] = entry->second;
  }
  std::vector<Bpe::Merge> merges;
  for (const auto& [pair, result] : pairs) merges.push_back({pair.first, pair.second, result});
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

TEST(Bpe, EqualsTheDefinitionForRandomTables) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int32_t num_merges = 1 + static_cast<int32_t>(random() % 30);
    const auto merges = random_merges(random, num_merges);
    const Bpe bpe(plain_byte_ids(), static_cast<size_t>(kNumBytes + 3 + num_merges), merges);
    for (int i = 0; i < 10; ++i) {
      std::string piece;
      for (size_t size = random() % 50; piece.size() < size;)
        piece.push_back(static_cast<char>('a' + random() % 3));
      EXPECT_EQ(encode(bpe, piece), encode_plainly(merges, piece))
          << "round " << round << ": " << piece;
    }
  }
}

TEST(Bpe, OfEqualRanksTheLeftmostMerges) {
  const Bpe::Merge merges[] = {{'a', 'a', 256}};
  const Bpe bpe(plain_byte_ids(), 257, merges);
  EXPECT_EQ(encode(bpe, "aaa"), (std::vector<int32_t>{256, 'a'}));
  EXPECT_EQ(encode(bpe, ""), std::vector<int32_t>{});
  EXPECT_EQ(encode(bpe, "a"), std::vector<int32_t>{'a'});
}

TEST(Bpe, AMegabyteOfOneLetterIsQuick) {
  std::vector<Bpe::Merge> merges;
  for (int32_t i = 0; i < 7; ++i) {  // a, aa, aaaa, ... 128 of them
    const int32_t half = i == 0 ? 'a' : kNumBytes + i - 1;
    merges.push_back({half, half, kNumBytes + i});
  }
  const Bpe bpe(plain_byte_ids(), kNumBytes + 7, merges);
  const auto start = std::chrono::steady_clock::now();
  const auto ids = encode(bpe, std::string(1 << 20, 'a'));
  EXPECT_LT(std::chrono::steady_clock::now() - start, testing::kHostileLimit);
  EXPECT_EQ(ids, std::vector<int32_t>((1 << 20) / 128, kNumBytes + 6));
}

}  // namespace
}  // namespace stoker
