// The prefix cache without a model: what is found, what goes first, and its books under random use.
#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "support/kv.h"

namespace stoker {
namespace {

using testing::store_of;

KvShape late_ring_shape() {
  return {.num_rings = 2,
          .num_early_rings = 1,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 4,
          .history = 2,
          .sources = {{0, 2}}};
}

// Tokens of which the first `shared` are the same for all, the others those of `kind`.
std::vector<int32_t> tokens_of(int64_t length, int32_t kind, int64_t shared = 0) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<int32_t>(i * 7 % 1000) + (i < shared ? 0 : 1000 * kind));
  return tokens;
}

// A sequence as the engine has it.
struct User {
  PrefixPath path;
  std::optional<SequenceState> state;
  std::vector<int32_t> tokens;
};

class PrefixCacheTest : public ::testing::Test {
 protected:
  // Begins with what is cached, runs all tokens, publishes, and makes whole images at `images`.
  std::unique_ptr<User> run(std::vector<int32_t> tokens, const std::vector<int64_t>& images = {},
                            const std::string& salt = "") {
    auto user = std::make_unique<User>();
    user->tokens = std::move(tokens);
    user->state = SequenceState::create(*store_, 100);
    EXPECT_TRUE(user->state);
    const auto length = static_cast<int64_t>(user->tokens.size());
    cache_->open(user->path, salt);
    const int64_t most = (length - 1) / kBlockTokens;
    const auto found = match_anew(user->tokens, most, salt);
    const auto asked = cache_->match(user->path, user->tokens, most);
    EXPECT_EQ(asked.num_blocks, found.num_blocks);
    EXPECT_EQ(asked.unused, found.unused);
    start_ = cache_->attach(user->path, *user->state, user->tokens, most, length);
    EXPECT_EQ(static_cast<int64_t>(user->path.nodes.size()), found.num_blocks);
    cache_->make_room(user->state->blocks_missing(length));
    EXPECT_TRUE(user->state->reserve(length));
    user->state->advance(length - user->state->length());
    while (static_cast<int64_t>(user->path.nodes.size()) < length / kBlockTokens)
      cache_->publish(user->path, *user->state, user->tokens);
    for (const int64_t position : images) image_at(*user, position, true);
    return user;
  }

  // What one is told who never asked before.
  PrefixCache::Match match_anew(const std::vector<int32_t>& tokens, int64_t max_blocks,
                                const std::string& salt) {
    PrefixPath path;
    cache_->open(path, salt);
    const auto found = cache_->match(path, tokens, max_blocks);
    cache_->release(path);
    return found;
  }

  void image_at(const User& user, int64_t position, bool whole) {
    const auto image = cache_->take_image(whole);
    ASSERT_TRUE(image);
    cache_->view(*image).set_history(position - 2, static_cast<int32_t>(position));
    cache_->add_image(user.path, position, *image);
  }

  void leave(std::unique_ptr<User> user) {
    user->state.reset();
    cache_->release(user->path);
  }

  std::string problem(const std::vector<const User*>& users) const {
    std::vector<int32_t> references(static_cast<size_t>(store_->plan().num_blocks), 0);
    std::vector<const PrefixPath*> paths;
    for (const User* user : users) {
      paths.push_back(&user->path);
      for (const BlockId block : user->state->blocks()) ++references[static_cast<size_t>(block)];
    }
    const std::string found = cache_->integrity_problem(paths, references);
    return found.empty() ? store_->integrity_problem(references) : found;
  }

  void make(int32_t num_slots, int64_t num_units, int64_t num_blocks) {
    store_ = store_of(late_ring_shape(), num_slots, num_units, num_blocks);
    cache_ = std::make_unique<PrefixCache>(*store_, 100);
  }

  std::unique_ptr<KvStore> store_;
  std::unique_ptr<PrefixCache> cache_;
  PrefixCache::Start start_;
};

TEST_F(PrefixCacheTest, FindsTheLongestPrefixAndStartsAtItsLastImage) {
  make(4, 8, 20);
  leave(run(tokens_of(700, 1, 300), {128, 384}));
  EXPECT_EQ(start_.position, 0) << "the first one finds nothing";
  leave(run(tokens_of(1000, 1, 300)));
  EXPECT_EQ(start_.position, 384);
  EXPECT_TRUE(start_.is_whole);
  auto same_beginning = run(tokens_of(700, 2, 300));
  EXPECT_EQ(start_.position, 128);
  EXPECT_EQ(same_beginning->state->shared_until(), 256) << "two full blocks are the same";
  EXPECT_EQ(same_beginning->state->history(2), 128) << "the image's";
  leave(std::move(same_beginning));
  leave(run(tokens_of(700, 3)));
  EXPECT_EQ(start_.position, 0);
}

TEST_F(PrefixCacheTest, AnImageWithoutLateRingsServesUpToTheGateOnly) {
  make(4, 8, 20);
  auto user = run(tokens_of(512, 1));
  image_at(*user, 128, false);
  image_at(*user, 384, false);
  leave(std::move(user));
  const std::vector<int32_t> tokens = tokens_of(512, 1);
  const auto start_with_gate = [&](int64_t late_from) {
    User next;
    next.state = SequenceState::create(*store_, 100);
    cache_->open(next.path, "");
    const auto found = cache_->match(next.path, tokens, 3);
    EXPECT_EQ(found.num_blocks, 3);
    const auto start = cache_->attach(next.path, *next.state, tokens, 3, late_from);
    next.state.reset();
    cache_->release(next.path);
    return start.position;
  };
  EXPECT_EQ(start_with_gate(384), 384);
  EXPECT_EQ(start_with_gate(383), 128);
  EXPECT_EQ(start_with_gate(127), 0);
}

TEST_F(PrefixCacheTest, SaltsShareNothing) {
  make(4, 8, 20);
  leave(run(tokens_of(300, 1), {256}, "a"));
  leave(run(tokens_of(300, 1), {256}, "b"));
  EXPECT_EQ(start_.position, 0);
  leave(run(tokens_of(300, 1), {}, "a"));
  EXPECT_EQ(start_.position, 256);
}

TEST_F(PrefixCacheTest, TwoThatRanSideBySideEndWithOneCopy) {
  make(4, 8, 20);
  User first;
  User second;
  for (User* user : {&first, &second}) {
    user->tokens = tokens_of(256, 1);
    user->state = SequenceState::create(*store_, 100);
    cache_->open(user->path, "");
    ASSERT_TRUE(user->state->reserve(256));
    user->state->advance(256);
  }
  for (User* user : {&first, &second}) {
    cache_->publish(user->path, *user->state, user->tokens);
    cache_->publish(user->path, *user->state, user->tokens);
  }
  EXPECT_EQ(first.state->blocks(), second.state->blocks());
  EXPECT_EQ(store_->num_free_blocks(), 18);
  EXPECT_EQ(problem({&first, &second}), "");
}

TEST_F(PrefixCacheTest, EndsOfPathsGoFirstAndTheOldestUseBeforeAll) {
  make(4, 8, 8);
  leave(run(tokens_of(512, 1), {128, 512}));
  leave(run(tokens_of(256, 2), {256}));
  leave(run(tokens_of(513, 1)));  // used again: the other is the oldest now
  EXPECT_EQ(start_.position, 512);
  EXPECT_EQ(cache_->num_nodes(), 6);
  cache_->make_room(4);
  EXPECT_EQ(cache_->num_nodes(), 4);
  leave(run(tokens_of(257, 2)));
  EXPECT_EQ(start_.position, 0) << "gone, with its image";
  EXPECT_EQ(problem({}), "");
  cache_->make_room(8);
  EXPECT_EQ(cache_->num_nodes(), 0);
  EXPECT_EQ(cache_->num_images(), 0);
  EXPECT_EQ(store_->num_free_image_units(), 8);
}

TEST_F(PrefixCacheTest, TheImageThatSparesLeastForLongestGoesFirst) {
  make(4, 6, 20);  // three whole images
  auto user = run(tokens_of(1300, 1), {1024, 1152});
  image_at(*user, 1280, true);
  const auto used = run(tokens_of(1300, 1));
  EXPECT_EQ(start_.position, 1280);
  image_at(*user, 512, true);  // there are four now: one of them went
  EXPECT_EQ(cache_->num_images(), 3);
  EXPECT_FALSE(cache_->has_image(user->path, 1152, true)) << "one block after another";
  EXPECT_TRUE(cache_->has_image(user->path, 1024, true)) << "1024 rows from the beginning";
  EXPECT_TRUE(cache_->has_image(user->path, 1280, true)) << "it was of use";
}

TEST_F(PrefixCacheTest, AWholeImageTakesThePlaceOfAShortenedOne) {
  make(4, 6, 20);
  auto user = run(tokens_of(300, 1));
  image_at(*user, 256, false);
  EXPECT_FALSE(cache_->has_image(user->path, 256, true));
  image_at(*user, 256, true);
  EXPECT_TRUE(cache_->has_image(user->path, 256, true));
  image_at(*user, 256, false);
  EXPECT_TRUE(cache_->has_image(user->path, 256, true)) << "the better one stays";
  EXPECT_EQ(store_->num_free_image_units(), 4);
  EXPECT_EQ(problem({user.get()}), "");
}

TEST_F(PrefixCacheTest, AfterAResetNothingIsFoundAndNothingIsLost) {
  make(4, 6, 20);
  leave(run(tokens_of(300, 1), {256}));
  auto running = run(tokens_of(600, 2), {512});
  cache_->reset();
  EXPECT_EQ(problem({running.get()}), "");
  leave(run(tokens_of(300, 1)));
  EXPECT_EQ(start_.position, 0);
  leave(run(tokens_of(700, 2)));
  EXPECT_EQ(start_.position, 0) << "not even from what still runs";
  leave(std::move(running));
  EXPECT_EQ(problem({}), "");
  cache_->make_room(20);
  EXPECT_EQ(store_->num_free_blocks(), 20);
}

// One waits and asks again and again while blocks come and go: it is always told what one
// who asks for the first time is told.
TEST_F(PrefixCacheTest, AMatchFollowsWhatComesAndGoes) {
  make(6, 5, 12);
  std::mt19937 random(7);
  PrefixPath waiting;
  const std::vector<int32_t> tokens = tokens_of(900, 1);
  cache_->open(waiting, "");
  std::unique_ptr<User> other;
  int64_t num_changes = 0;
  int64_t last = 0;
  for (int i = 0; i < 500; ++i) {
    if (other) leave(std::move(other));
    const auto length = static_cast<int64_t>(1 + random() % 1000);
    other = run(tokens_of(length, static_cast<int32_t>(random() % 3)));
    if (random() % 2 == 0) leave(std::move(other));
    if (random() % 4 == 0) cache_->make_room(static_cast<int64_t>(random() % 13));
    const auto asked = cache_->match(waiting, tokens, 7);
    const auto found = match_anew(tokens, 7, "");
    ASSERT_EQ(asked.num_blocks, found.num_blocks) << i;
    ASSERT_EQ(asked.unused, found.unused) << i;
    num_changes += found.num_blocks != last ? 1 : 0;
    last = found.num_blocks;
  }
  EXPECT_GT(num_changes, 50);
}

TEST_F(PrefixCacheTest, RandomUseKeepsItsBooks) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  make(6, 5, 30);
  std::vector<std::unique_ptr<User>> users;
  int64_t num_hits = 0;
  for (int step = 0; step < 3000; ++step) {
    const uint32_t action = random() % 10;
    if (action < 5 && users.size() < 5) {
      const int64_t length = 1 + static_cast<int64_t>(random() % 640);
      auto tokens = tokens_of(length, static_cast<int32_t>(random() % 3),
                              static_cast<int64_t>(random() % 4) * 128);
      if (blocks_for(length) <= store_->num_free_blocks() + cache_->num_unused()) {
        users.push_back(run(std::move(tokens), {}, random() % 3 == 0 ? "salt" : ""));
        num_hits += start_.position > 0 ? 1 : 0;
        if (!users.back()->path.nodes.empty()) {
          const auto block = static_cast<int64_t>(random() % users.back()->path.nodes.size());
          image_at(*users.back(), (block + 1) * kBlockTokens, random() % 2 == 0);
        }
      }
    } else if (!users.empty()) {
      const size_t at = random() % users.size();
      leave(std::move(users[at]));
      users.erase(users.begin() + static_cast<int64_t>(at));
    }
    if (action == 9 && random() % 20 == 0) cache_->reset();
    std::vector<const User*> all;
    for (const auto& user : users) all.push_back(user.get());
    ASSERT_EQ(problem(all), "") << "step " << step;
  }
  EXPECT_GT(num_hits, 100);
}

}  // namespace
}  // namespace stoker
