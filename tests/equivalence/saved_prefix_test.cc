// A conversation that is saved and taken up in another engine goes on with the same bits, wherever
// it was cut: with other threads, another bounded replay, drafts or none.
#include "kv/saved_prefix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "equivalence/stepped_engine.h"

namespace stoker::testing {
namespace {

using engine::TokenRequest;

#ifdef STOKER_SANITIZED
constexpr bool kFewSaved = true;
#else
constexpr bool kFewSaved = false;
#endif

struct Way {
  int num_threads;
  ReplayMode replay;
  bool drafts;
};

SteppedEngine::Options options_of(const Way& way) {
  SteppedEngine::Options options{way.num_threads, way.replay};
  if (way.drafts) options.limits.drafts = engine::DraftOptions{.is_adaptive = false};
  return options;
}

class Saved : public ::testing::TestWithParam<const char*> {
 protected:
  const Models& models() const { return Models::get(GetParam()); }
  std::vector<int32_t> ids(uint32_t seed, int64_t length) const {
    return random_ids(models(), seed, length);
  }

  // Asks, and returns prompt and answer.
  static std::vector<int32_t> converse(SteppedEngine& engine, const TokenRequest& request) {
    const size_t number = engine.submit(request);
    engine.run();
    std::vector<int32_t> all = request.prompt;
    const std::vector<int32_t>& answer = engine.answer(number).ids;
    all.insert(all.end(), answer.begin(), answer.end());
    return all;
  }

  Result<int64_t> load(SteppedEngine& engine, const Way& way,
                       const std::vector<uint8_t>& bytes) const {
    const Model& model = models().model(way.replay);
    const auto saved = SavedPrefix::read(bytes, model.state_shape(), models().vocab_size());
    if (!saved) return saved.error();
    return engine.scheduler().load_prefix(*saved, model.token_map());
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Saved, ::testing::Values("small", "demo"),
                         [](const auto& model) { return model.param; });

// Of what length the conversation is: less than a block, its end, one more, the middle of one, more
// than the distance of images.
TEST_P(Saved, AndTakenUpElsewhereEqualsUninterrupted) {
  const std::vector<Way> ways = {{2, ReplayMode::kExact, true},
                                 {1, ReplayMode::kExact, false},
                                 {3, ReplayMode::kOff, true},
                                 {1, ReplayMode::kOff, false}};
  const std::vector<int64_t> lengths =
      kFewSaved ? std::vector<int64_t>{130, 200}
                : std::vector<int64_t>{20, 127, 128, 129, 200, 256, 300, 700};
  uint32_t seed = 0;
  for (const int64_t length : lengths) {
    for (size_t from = 0; from < (kFewSaved ? 2 : ways.size()); ++from) {
      SteppedEngine engine(models(), options_of(ways[from]));
      std::vector<int32_t> all = converse(engine, request_of(ids(seed, length), 9, seed));
      std::vector<uint8_t> bytes;
      const auto num_tokens = engine.scheduler().save_prefix(all, bytes);
      // The last token of an answer was not run.
      const int64_t expected = (static_cast<int64_t>(all.size()) - 1) / kBlockTokens * kBlockTokens;
      if (expected == 0) {
        EXPECT_EQ(num_tokens.error().code, ErrorCode::kNotFound);
        continue;
      }
      ASSERT_TRUE(num_tokens) << num_tokens.error().message;
      EXPECT_EQ(*num_tokens, expected);
      std::vector<int32_t> more = ids(100 + seed, 12);
      all.insert(all.end(), more.begin(), more.end());
      for (const size_t further : {1, 2}) {
        const Way& to = ways[(from + further) % ways.size()];
        SteppedEngine other(models(), options_of(to));
        const auto loaded = load(other, to, bytes);
        ASSERT_TRUE(loaded) << loaded.error().message;
        EXPECT_EQ(*loaded, expected);
        const TokenRequest next = request_of(all, 6, ++seed % 4);
        const size_t number = other.submit(next);
        other.run();
        EXPECT_TRUE(same(other.answer(number), alone(models(), next)))
            << length << " tokens, seed " << seed % 4;
        EXPECT_EQ(other.answer(number).cached_tokens, expected);
      }
    }
  }
}

// What was loaded is saved as the same bytes, and so is what was computed with other threads and
// in other chunks.
TEST_P(Saved, BytesFollowFromTheTokens) {
  std::vector<std::vector<uint8_t>> saved;
  const std::vector<int32_t> prompt = ids(5, 300);
  for (const auto& [threads, rows] : {std::pair{1, 1024}, std::pair{3, 50}, std::pair{2, 128}}) {
    SteppedEngine::Options options{threads};
    options.limits.max_step_rows = rows;
    SteppedEngine engine(models(), options);
    converse(engine, request_of(ids(6, 200), 2, 2));  // blocks lie elsewhere
    const std::vector<int32_t> all = converse(engine, request_of(prompt, 3, 4));
    auto& bytes = saved.emplace_back();
    ASSERT_TRUE(engine.scheduler().save_prefix(all, bytes));
    SteppedEngine other(models(), {});
    ASSERT_TRUE(load(other, {2, ReplayMode::kExact, false}, bytes));
    std::vector<uint8_t> again;
    ASSERT_TRUE(other.scheduler().save_prefix(all, again));
    EXPECT_EQ(again, bytes);
  }
  EXPECT_EQ(saved[1], saved[0]);
  EXPECT_EQ(saved[2], saved[0]);
}

// Under compact replay no image is whole: one further back is saved too, from which any
// continuation can go on.
TEST_P(Saved, UnderCompactReplayEqualsUninterrupted) {
  const Way way{2, ReplayMode::kCompact, false};
  SteppedEngine::Options options = options_of(way);
  options.limits.image_interval = 128;
  SteppedEngine engine(models(), options);
  std::vector<int32_t> all = converse(engine, request_of(ids(7, 900), 9, 2));
  std::vector<uint8_t> bytes;
  const auto num_tokens = engine.scheduler().save_prefix(all, bytes);
  ASSERT_TRUE(num_tokens) << num_tokens.error().message;
  all.push_back(3);
  SteppedEngine other(models(), options);
  ASSERT_TRUE(load(other, way, bytes));
  const TokenRequest next = request_of(all, 6, 3);
  const size_t number = other.submit(next);
  other.run();
  const size_t here = engine.submit(next);
  engine.run();
  EXPECT_TRUE(same(other.answer(number), engine.answer(here)));
  EXPECT_GE(other.answer(number).cached_tokens, 512);
}

// Whatever records a saved prefix has, a request that goes on from it ends.
TEST_P(Saved, RecordsOfAnyBytesAreHarmless) {
  SteppedEngine engine(models(), {});
  const std::vector<int32_t> all = converse(engine, request_of(ids(8, 300), 2, 2));
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(engine.scheduler().save_prefix(all, bytes));
  const Way way{2, ReplayMode::kExact, false};
  const size_t records = bytes.size() / 3;  // behind the ids
  uint32_t x = 1;
  for (const uint8_t fill : {0xFF, 0x7F, 0x00, 0x01}) {
    std::vector<uint8_t> other = bytes;
    for (size_t at = records; at < other.size(); ++at) {
      x = x * 1664525 + 1013904223;
      other[at] = fill == 1 ? static_cast<uint8_t>(x >> 24) : fill;
    }
    SteppedEngine hostile(models(), {});
    ASSERT_TRUE(load(hostile, way, other));
    const size_t number = hostile.submit(request_of(all, 5, 2));
    hostile.run();
    EXPECT_TRUE(hostile.answer(number).end);
  }
}

TEST_P(Saved, WhileOthersRun) {
  SteppedEngine engine(models(), {});
  const TokenRequest first = request_of(ids(9, 200), 8, 2);
  const TokenRequest second = request_of(ids(10, 150), 30, 3);
  const std::vector<int32_t> all = converse(engine, first);
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(engine.scheduler().save_prefix(all, bytes));
  SteppedEngine other(models(), {});
  const size_t running = other.submit(second);
  for (int i = 0; i < 4; ++i) other.step();
  ASSERT_TRUE(load(other, {2, ReplayMode::kExact, false}, bytes));
  const TokenRequest next = request_of(all, 4, 2);
  const size_t number = other.submit(next);
  other.run();
  EXPECT_TRUE(same(other.answer(running), alone(models(), second)));
  EXPECT_TRUE(same(other.answer(number), alone(models(), next)));
  EXPECT_EQ(other.answer(number).cached_tokens, 128);
}

}  // namespace
}  // namespace stoker::testing
