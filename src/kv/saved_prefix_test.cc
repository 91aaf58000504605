// Saved prefixes without a model: what is saved is loaded, equal bytes for equal content, and bytes
// that are not ours are refused or harmless.
#include "kv/saved_prefix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "support/kv.h"

namespace stoker {
namespace {

constexpr int32_t kVocab = 1000;

KvShape saved_shape() {
  return {.num_rings = 3,
          .num_early_rings = 1,
          .num_draft_rings = 1,
          .max_drafts = 2,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 5,
          .history = 2,
          .sources = {{0, 2}, {1, 1}}};
}

// Its late rings are no part of their own.
KvShape without_replay() {
  KvShape shape = saved_shape();
  shape.num_early_rings = shape.num_rings;
  return shape;
}

std::vector<int32_t> saved_ids(int64_t length, int32_t kind = 0) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>((i * 7 + kind) % kVocab));
  return ids;
}

// A store and a cache, and what of a sequence is put there.
class Cached {
 public:
  explicit Cached(const KvShape& shape, int64_t num_units = 8, int64_t num_blocks = 20)
      : store(testing::store_of(shape, 2, num_units, num_blocks)), cache(*store, 100) {
    token_map.resize(kVocab);
    std::iota(token_map.begin(), token_map.end(), 5000);
  }

  // Runs ids with records that follow from their places, and what else is there from `noise`.
  void run(const std::vector<int32_t>& ids, const std::vector<std::pair<int64_t, bool>>& images,
           uint32_t noise = 1) {
    std::mt19937 random(noise);
    const KvShape& shape = store->shape();
    PrefixPath path;
    cache.open(path, "");
    auto state = SequenceState::create(*store, 100);
    const auto length = static_cast<int64_t>(ids.size());
    ASSERT_TRUE(state->reserve(length));
    for (const BlockId block : state->blocks())
      fill(store->block(block), shape.block_bytes(), random);
    put_records(*state, length);
    state->advance(length);
    while (static_cast<int64_t>(path.nodes.size()) < length / kBlockTokens)
      cache.publish(path, *state, ids);
    for (const auto& [position, whole] : images) add_image(path, ids, position, whole, random);
    state.reset();
    cache.release(path);
  }

  Result<int64_t> load(const std::vector<uint8_t>& bytes) {
    const auto saved = SavedPrefix::read(bytes, store->shape(), kVocab);
    if (!saved) return saved.error();
    return load_prefix(cache, *store, *saved, token_map);
  }

  std::vector<uint8_t> save(const std::vector<int32_t>& ids, int64_t gate = 0) {
    std::vector<uint8_t> bytes;
    const auto saved = save_prefix(cache, *store, ids, gate, bytes);
    EXPECT_TRUE(saved) << saved.error().message;
    return bytes;
  }

  std::string problem() const {
    std::vector<int32_t> references(static_cast<size_t>(store->plan().num_blocks), 0);
    const std::string found = cache.integrity_problem({}, references);
    return found.empty() ? store->integrity_problem(references) : found;
  }

  std::unique_ptr<KvStore> store;
  PrefixCache cache;
  std::vector<int32_t> token_map;

 private:
  static void fill(uint8_t* bytes, int64_t size, std::mt19937& random) {
    for (int64_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(random());
  }

  void put_records(SequenceState& state, int64_t length) const {
    const KvShape& shape = store->shape();
    std::mt19937 random(77);
    for (size_t source = 0; source < shape.sources.size(); ++source) {
      for (int64_t entry = 0; entry < length / shape.sources[source].ratio; ++entry) {
        fill(state.latent(source, entry), shape.latent_record(), random);
        fill(state.index_key(source, entry), shape.index_record(), random);
      }
    }
  }

  // Unwritten places of the image have noise.
  void add_image(const PrefixPath& path, const std::vector<int32_t>& ids, int64_t position,
                 bool whole, std::mt19937& random) {
    const KvShape& shape = store->shape();
    const auto units = cache.take_image(whole);
    ASSERT_TRUE(units);
    fill(store->image_unit(units->early), shape.image_unit_bytes(), random);
    if (units->late) fill(store->image_unit(*units->late), shape.image_unit_bytes(), random);
    const SlotImage image = cache.view(*units);
    const int64_t draft_from = position - 3;
    image.set_draft_from(draft_from);
    for (int32_t ring = 0; ring < shape.num_rings; ++ring) {
      if (image.window_row(ring, 0) == nullptr) continue;
      const bool is_draft = ring >= shape.num_rings - shape.num_draft_rings;
      for (int64_t at = is_draft ? draft_from : position - shape.window + 1; at < position; ++at) {
        std::mt19937 of_row(static_cast<uint32_t>(1000 * ring + at));
        fill(image.window_row(ring, at), shape.window_record(), of_row);
      }
    }
    for (int64_t at = position - shape.history; at < position; ++at)
      image.set_history(at, token_map[static_cast<size_t>(ids[static_cast<size_t>(at)])]);
    cache.add_image(path, position, *units);
  }
};

TEST(SavedPrefix, IsTheSameBytesAfterItWasLoadedElsewhere) {
  for (const KvShape& shape : {saved_shape(), without_replay()}) {
    const std::vector<int32_t> ids = saved_ids(700);
    Cached from(shape);
    from.run(ids, {{128, true}, {384, false}, {512, true}});
    const auto bytes = from.save(ids);
    EXPECT_EQ(bytes, from.save(ids)) << "saving changes nothing";
    Cached to(shape);
    to.run(saved_ids(300, 9), {{256, true}}, 2);  // its blocks lie elsewhere
    const auto loaded = to.load(bytes);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(*loaded, 512);
    EXPECT_EQ(to.problem(), "");
    EXPECT_EQ(to.save(ids), bytes);
    EXPECT_EQ(*to.load(bytes), 512) << "again";
    EXPECT_EQ(to.save(ids), bytes);
    EXPECT_EQ(to.problem(), "");
  }
}

TEST(SavedPrefix, DoesNotTellOfWhatIsNeverRead) {
  const std::vector<int32_t> ids = saved_ids(300);
  Cached one(saved_shape());
  Cached other(saved_shape());
  one.run(ids, {{256, true}}, 1);
  other.run(ids, {{256, true}}, 2);
  EXPECT_EQ(one.save(ids), other.save(ids));
}

TEST(SavedPrefix, ASequenceBeginsWithIt) {
  const std::vector<int32_t> ids = saved_ids(400);
  Cached from(saved_shape());
  from.run(ids, {{256, true}});
  Cached to(saved_shape());
  ASSERT_TRUE(to.load(from.save(ids)));
  PrefixPath path;
  to.cache.open(path, "");
  auto state = SequenceState::create(*to.store, 10);
  const auto start = to.cache.attach(path, *state, ids, 3, 400);
  EXPECT_EQ(start.position, 256);
  EXPECT_TRUE(start.is_whole);
  EXPECT_EQ(state->history(1), to.token_map[static_cast<size_t>(ids[255])]);
  EXPECT_EQ(state->history(2), to.token_map[static_cast<size_t>(ids[254])]);
  EXPECT_EQ(state->draft_from(), 253);
  state.reset();
  to.cache.release(path);
}

TEST(SavedPrefix, HasTheImagesThatAContinuationMayNeed) {
  const std::vector<int32_t> ids = saved_ids(900);
  Cached from(saved_shape());
  from.run(ids, {{128, false}, {256, true}, {512, false}, {640, false}, {768, false}});
  const auto positions = [&](int64_t gate) {
    std::vector<int64_t> all;
    const auto bytes = from.save(ids, gate);
    const auto saved = SavedPrefix::read(bytes, saved_shape(), kVocab);
    EXPECT_TRUE(saved) << saved.error().message;
    for (const auto& image : saved->images()) all.push_back(image.position);
    return all;
  };
  EXPECT_EQ(positions(0), (std::vector<int64_t>{256, 512, 640, 768}));
  EXPECT_EQ(positions(640), (std::vector<int64_t>{640, 768}));
  EXPECT_EQ(positions(900), (std::vector<int64_t>{768}));
}

TEST(SavedPrefix, WithoutAnImageThereIsNothingToSave) {
  Cached from(saved_shape());
  from.run(saved_ids(300), {});
  std::vector<uint8_t> bytes;
  const auto saved = save_prefix(from.cache, *from.store, saved_ids(300), 0, bytes);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(bytes.empty());
}

TEST(SavedPrefix, AnotherReplayTakesTheWholeImages) {
  const std::vector<int32_t> ids = saved_ids(600);
  Cached from(saved_shape());
  from.run(ids, {{256, true}, {512, false}});
  Cached to(without_replay());
  const auto loaded = to.load(from.save(ids));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, 256);
  EXPECT_EQ(to.problem(), "");
  Cached early(saved_shape());
  early.run(ids, {{512, false}});
  const auto refused = to.load(early.save(ids));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST(SavedPrefix, WhatDoesNotFitChangesNothing) {
  const std::vector<int32_t> ids = saved_ids(700);
  Cached from(saved_shape());
  from.run(ids, {{128, true}, {384, false}, {512, true}});
  const auto bytes = from.save(ids);
  Cached small(saved_shape(), 8, 3);
  small.run(saved_ids(300, 9), {{256, true}});
  const auto before = small.save(saved_ids(300, 9));
  const auto refused = small.load(bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("needs 4 more blocks, and 3 "), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(small.save(saved_ids(300, 9)), before);
  Cached no_images(saved_shape(), 1, 20);
  EXPECT_EQ(no_images.load(bytes).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(no_images.cache.num_nodes(), 0);
  EXPECT_EQ(no_images.problem(), "");
}

TEST(SavedPrefix, TakesTheRoomOfWhatNobodyUses) {
  const std::vector<int32_t> ids = saved_ids(700);
  Cached from(saved_shape());
  from.run(ids, {{512, true}});
  Cached to(saved_shape(), 2, 5);
  to.run(saved_ids(500, 9), {{384, true}});
  ASSERT_TRUE(to.load(from.save(ids)));
  EXPECT_EQ(to.problem(), "");
  EXPECT_EQ(to.save(ids), from.save(ids));
}

TEST(SavedPrefix, EndsAreWhatCanBeSaved) {
  Cached from(saved_shape());
  std::vector<int32_t> ids = saved_ids(600);
  from.run(ids, {{128, true}, {512, true}});
  std::vector<int32_t> branch(ids.begin(), ids.begin() + 256);
  branch.resize(500, 3);
  from.run(branch, {{384, true}});
  const auto ends = from.cache.ends("", 10);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0], std::vector<int32_t>(branch.begin(), branch.begin() + 384));
  EXPECT_EQ(ends[1], std::vector<int32_t>(ids.begin(), ids.begin() + 512));
  EXPECT_EQ(from.cache.ends("", 1).size(), 1U);
  EXPECT_TRUE(from.cache.ends("salt", 10).empty());
}

TEST(SavedPrefix, EveryCutAndEveryByteIsRefusedOrHarmless) {
  const std::vector<int32_t> ids = saved_ids(300);
  Cached from(saved_shape());
  from.run(ids, {{128, false}, {256, true}});
  auto bytes = from.save(ids);
  Cached to(saved_shape());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = SavedPrefix::read(Bytes(bytes).first(size), saved_shape(), kVocab);
    ASSERT_FALSE(cut) << size;
  }
  const size_t header = (11 + 3 + 6) * 8 + 256 * 4;
  int num_taken = 0;
  for (size_t at = 0; at < header; ++at) {
    for (const uint8_t flip : {0x01, 0x80, 0xFF}) {
      bytes[at] ^= flip;
      num_taken += to.load(bytes) ? 1 : 0;
      ASSERT_EQ(to.problem(), "") << "byte " << at;
      bytes[at] ^= flip;
    }
  }
  EXPECT_GT(num_taken, 256) << "other ids are other prefixes";
  bytes.push_back(0);
  EXPECT_EQ(to.load(bytes).error().code, ErrorCode::kCorruptData);
}

TEST(SavedPrefix, OtherSizesAreNamed) {
  const std::vector<int32_t> ids = saved_ids(300);
  Cached from(saved_shape());
  from.run(ids, {{256, true}});
  const auto bytes = from.save(ids);
  KvShape other = saved_shape();
  other.window = 7;
  const auto refused = SavedPrefix::read(bytes, other, kVocab);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("sliding_window: expected 7, found 5"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace stoker
