// Engines that let go of all their files and have them again: nothing of them is left in between,
// the answers are the same to the bit, and wrong bytes never answer.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "snapshot/pinning_child.h"
#include "snapshot/snapshots.h"
#include "snapshot/store_fixture.h"
#include "stoker/engine.h"
#include "stoker/snapshot.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Ids and the bits of log-probabilities, of a greedy answer and of a sampled one.
using TwoAnswers = std::vector<std::pair<int32_t, float>>;

Request question(double temperature) {
  Request request;
  request.prompt = TokenPrompt{{5, 6, 7, 8, 9, 10, 11, 12}};
  request.max_tokens = 20;
  request.ignore_eos = true;
  request.logprobs = 0;
  request.sampling.temperature = temperature;
  request.sampling.seed = 7;
  return request;
}

void read_answer(Engine& engine, double temperature, TwoAnswers& out) {
  auto stream = engine.submit(question(temperature));
  ASSERT_TRUE(stream) << stream.error().message;
  for (bool is_done = false; !is_done;) {
    const auto event = (*stream)->wait(10s);
    ASSERT_TRUE(event);
    for (size_t i = 0; i < event->ids.size(); ++i)
      out.emplace_back(event->ids[i], event->details[i].logprobs.logprob);
    is_done = event->finish.has_value();
  }
}

TwoAnswers two_answers(Engine& engine) {
  TwoAnswers answers;
  read_answer(engine, 0, answers);
  read_answer(engine, 1, answers);
  EXPECT_EQ(answers.size(), 40U);
  return answers;
}

ErrorCode submit_code(Engine& engine) {
  const auto stream = engine.submit(question(0));
  EXPECT_FALSE(stream);
  return stream ? ErrorCode::kInternal : stream.error().code;
}

// The mappings of this process whose line has a text.
std::vector<std::string> mappings_of(const std::string& text) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(text) != std::string::npos) found.push_back(line);
  }
  return found;
}

// What of a folder this process has mapped or open.
std::vector<std::string> held_of(const fs::path& folder) {
  std::vector<std::string> held = mappings_of(folder.string());
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path target = fs::read_symlink(entry.path(), gone);
    if (target.string().starts_with(folder.string())) held.push_back(target);
  }
  return held;
}

class QuiesceTest : public snapshot::StoreTest {
 protected:
  SnapshotOptions how(const std::string& store = "store") const {
    SnapshotOptions options;
    options.engine.num_threads = 2;
    options.engine.weights.store = (dir_ / store).string();
    options.engine.weights.verify = Verify::kFull;
    return options;
  }

  ResumeOptions from(const std::string& store = "store") const {
    ResumeOptions options;
    options.store = (dir_ / store).string();
    return options;
  }

  BroughtUp brought_up(const std::string& model) const {
    const auto made = create_snapshot(model, how());
    EXPECT_TRUE(made) << made.error().message;
    auto up = bring_up(made->id, how());
    EXPECT_TRUE(up) << up.error().message;
    return *std::move(up);
  }

  fs::path object_of(const SnapshotInfo& info, const std::string& part) const {
    const auto found = std::ranges::find(info.parts, part, &SnapshotPart::name);
    EXPECT_NE(found, info.parts.end()) << part;
    return objects() / found->object;
  }
};

void write_as_object(const fs::path& path, const std::string& bytes) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
  fs::permissions(path, fs::perms(0400));
}

TEST_F(QuiesceTest, NothingIsHeldAndTheBitsAreTheSame) {
  const BroughtUp up = brought_up(testing::kDemoCheckpoint);
  const TwoAnswers before = two_answers(*up.engine);
  EXPECT_THAT(held_of(dir_), Not(IsEmpty()));
  ASSERT_TRUE(up.engine->quiesce(0ms));
  EXPECT_THAT(held_of(dir_), IsEmpty());
  auto resumed = up.engine->resume(from());
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(two_answers(*up.engine), before);
  EXPECT_EQ(snapshot_exit_code(remove_snapshot(up.snapshot.id, how()).error()), 7);  // it is used
}

std::vector<std::string> sealed_mappings() {
  return mappings_of("memfd:");
}

TEST_F(QuiesceTest, OfAPinnersSealedCopyNothingIsHeldEither) {
  const auto made = create_snapshot(testing::kDemoCheckpoint, how());
  ASSERT_TRUE(made) << made.error().message;
  snapshot::PinningChild pinner([&]() -> Result<snapshot::Pinned> {
    const snapshot::Store store = open_store();
    const auto manifest = snapshot::Snapshots(store).read(*snapshot::Digest::from_hex(made->id));
    return snapshot::pin_sealed(store, {*manifest->find("weights"), *manifest->find("tensors")}, 2);
  });
  const auto up = bring_up(made->id, how());
  ASSERT_TRUE(up) << up.error().message;
  const TwoAnswers before = two_answers(*up->engine);
  EXPECT_EQ(sealed_mappings().size(), 2U);
  ASSERT_TRUE(up->engine->quiesce(0ms));
  EXPECT_EQ(sealed_mappings().size(), 0U);
  auto resumed = up->engine->resume(from());  // of the files: what a pinner verified is not enough
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(sealed_mappings().size(), 0U);
  EXPECT_EQ(two_answers(*up->engine), before);
  EXPECT_EQ(pinner.end(SIGTERM), 0);
}

TEST_F(QuiesceTest, ItsStoreMayHaveMoved) {
  const BroughtUp up = brought_up(testing::kDemoCheckpoint);
  const TwoAnswers before = two_answers(*up.engine);
  ASSERT_TRUE(up.engine->quiesce(0ms));
  fs::rename(dir_ / "store", dir_ / "other");
  ASSERT_TRUE(snapshot::Store::open((dir_ / "store").string()));  // an empty one
  EXPECT_EQ(up.engine->resume(from()).error().code, ErrorCode::kNotFound);
  auto resumed = up.engine->resume(from("other"));
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(two_answers(*up.engine), before);
  EXPECT_THAT(held_of(dir_ / "store"), IsEmpty());
  EXPECT_EQ(snapshot_exit_code(remove_snapshot(up.snapshot.id, how("other")).error()), 7);
}

TEST_F(QuiesceTest, WrongBytesNeverAnswer) {
  const BroughtUp up = brought_up(testing::kDemoCheckpoint);
  const TwoAnswers before = two_answers(*up.engine);
  ASSERT_TRUE(up.engine->quiesce(0ms));
  for (const char* const part : {"weights", "tensors", "tables", "canary"}) {
    const fs::path path = object_of(up.snapshot, part);
    const std::string good = snapshot::text_in(path);
    std::string bad = good;
    bad.back() = static_cast<char>(bad.back() ^ 1);
    for (const std::string& bytes : {bad, good.substr(1)}) {
      write_as_object(path, bytes);
      const auto resumed = up.engine->resume(from());
      ASSERT_FALSE(resumed) << part;
      EXPECT_EQ(resumed.error().code, ErrorCode::kCorruptData) << part;
      EXPECT_THAT(resumed.error().message, HasSubstr(path.filename().string()));
      EXPECT_EQ(submit_code(*up.engine), ErrorCode::kResourceExhausted);
    }
    fs::remove(path);
    EXPECT_EQ(up.engine->resume(from()).error().code, ErrorCode::kNotFound) << part;
    EXPECT_THAT(held_of(dir_), IsEmpty());
    write_as_object(path, good);
  }
  auto resumed = up.engine->resume(from());
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(two_answers(*up.engine), before);
}

TEST_F(QuiesceTest, NobodyAsksBeforeTheCanary) {
  const BroughtUp up = brought_up(testing::kSmallCheckpoint);
  ASSERT_TRUE(up.engine->quiesce(0ms));
  ResumeOptions options = from();
  bool is_asked = false;
  bool is_cut = true;
  options.progress = [&](const Progress& now) {
    if (now.phase != "asking the canary") return;
    is_asked = true;
    std::thread([&] { EXPECT_EQ(submit_code(*up.engine), ErrorCode::kResourceExhausted); }).join();
    if (is_cut) up.engine->drain(0ms);
  };
  const auto cut = up.engine->resume(options);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(held_of(dir_), IsEmpty());
  EXPECT_EQ(submit_code(*up.engine), ErrorCode::kResourceExhausted);
  is_cut = false;
  ASSERT_TRUE(up.engine->resume(options));
  EXPECT_TRUE(is_asked);
  two_answers(*up.engine);
}

TEST_F(QuiesceTest, FromACheckpointItsFilesMustBeTheSame) {
  const testing::CheckpointCopy copy(testing::kDemoCheckpoint);
  auto opened = Engine::open(copy.dir(), how().engine);
  ASSERT_TRUE(opened) << opened.error().message;
  Engine& engine = **opened;
  const TwoAnswers before = two_answers(engine);
  ASSERT_TRUE(engine.quiesce(0ms));
  EXPECT_THAT(held_of(dir_), IsEmpty());
  EXPECT_THAT(held_of(copy.dir()), IsEmpty());
  ASSERT_TRUE(engine.resume(from()));
  EXPECT_EQ(two_answers(engine), before);
  ASSERT_TRUE(engine.quiesce(0ms));

  const fs::path file = fs::path(copy.dir()) / "model-00001-of-00002.safetensors";
  const std::string good = snapshot::text_in(file);
  const fs::file_time_type time = fs::last_write_time(file);
  const auto rewrite = [&](const std::string& bytes) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  };
  rewrite(good);  // another time
  EXPECT_EQ(engine.resume(from()).error().code, ErrorCode::kCorruptData);
  std::string bad = good;
  bad[bad.size() / 3] = static_cast<char>(bad[bad.size() / 3] ^ 1);
  rewrite(bad);
  fs::last_write_time(file, time);  // nothing tells but the bytes
  const auto resumed = engine.resume(from());
  EXPECT_EQ(resumed.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(resumed.error().message, HasSubstr("fingerprint"));
  EXPECT_THAT(held_of(copy.dir()), IsEmpty());
  rewrite(good);
  fs::last_write_time(file, time);
  auto repaired = engine.resume(from());
  ASSERT_TRUE(repaired) << repaired.error().message;
  EXPECT_EQ(two_answers(engine), before);
}

TEST_F(QuiesceTest, WhatMakesNoSenseIsRefused) {
  auto in_memory = how().engine;
  in_memory.weights.pack = false;
  const auto packed = Engine::open(testing::kSmallCheckpoint, in_memory);
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed)->quiesce(0ms).error().code, ErrorCode::kUnsupported);
  two_answers(**packed);

  const auto engine = Engine::open(testing::kSmallCheckpoint, how().engine);
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->resume(from()).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE((*engine)->quiesce(0ms));
  EXPECT_EQ((*engine)->quiesce(0ms).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ((*engine)->sleep(SleepLevel::kNothing, false).error().code,
            ErrorCode::kResourceExhausted);
  EXPECT_EQ((*engine)->save_prefix({1, 2, 3}).error().code, ErrorCode::kResourceExhausted);
  (*engine)->wake_up();
  EXPECT_EQ(submit_code(**engine), ErrorCode::kResourceExhausted);
}

TEST_F(QuiesceTest, ItIsAwakeAndOpenAfterwards) {
  const auto engine = Engine::open(testing::kSmallCheckpoint, how().engine);
  ASSERT_TRUE(engine);
  const TwoAnswers before = two_answers(**engine);
  ASSERT_TRUE((*engine)->sleep(SleepLevel::kState, false));
  (*engine)->drain(0ms);
  ASSERT_TRUE((*engine)->quiesce(0ms));
  ASSERT_TRUE((*engine)->resume(from()));
  EXPECT_EQ(two_answers(**engine), before);
  EXPECT_EQ((*engine)->stats().sleep_level, -1);
}

TEST_F(QuiesceTest, WhatRunsHasItsTimeAndThenEnds) {
  const auto engine = Engine::open(testing::kSmallCheckpoint, how().engine);
  ASSERT_TRUE(engine);
  const auto last_reason = [](Stream& stream) {
    while (true) {
      const auto event = stream.wait(10s);
      if (!event) return FinishReason::kError;
      if (event->finish) return event->finish->reason;
    }
  };
  auto whole = (*engine)->submit(question(0));
  ASSERT_TRUE(whole);
  ASSERT_TRUE((*engine)->quiesce(60s));
  EXPECT_EQ(last_reason(**whole), FinishReason::kLength);
  ASSERT_TRUE((*engine)->resume(from()));
  Request endless = question(0);
  endless.max_tokens.reset();
  auto cut = (*engine)->submit(endless);
  ASSERT_TRUE(cut);
  ASSERT_TRUE((*engine)->quiesce(0ms));
  EXPECT_EQ(last_reason(**cut), FinishReason::kCancelled);
}

}  // namespace
}  // namespace stoker
