// Starts of a model over a store: the first packs, the second maps; what is damaged or of another
// model is never used; and no start fails for want of a store.
#include "api/stored_weights.h"

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <future>
#include <map>

#include "api/loaded_model.h"
#include "snapshot/store_fixture.h"
#include "stoker/pack.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using snapshot::kChildSkips;
using snapshot::Store;
using snapshot::StoreTest;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using testing::CheckpointCopy;

// What an engine answers, to the bit, and what was said while it was opened.
struct Start {
  std::vector<PositionLogprobs> logprobs;
  std::vector<int32_t> ids;
  std::vector<std::string> phases;
  std::string log;
};

Request the_request() {
  Request request;
  TokenPrompt prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.ids.push_back(i * 37 % 500);
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.max_tokens = 8;
  request.prompt_logprobs = 0;
  return request;
}

void answer(Engine& engine, Start& start) {
  auto stream = engine.submit(the_request());
  ASSERT_TRUE(stream) << stream.error().message;
  for (bool is_done = false; !is_done;) {
    const auto event = (*stream)->wait(10s);
    ASSERT_TRUE(event);
    start.ids.insert(start.ids.end(), event->ids.begin(), event->ids.end());
    start.logprobs.insert(start.logprobs.end(), event->prompt_logprobs.begin(),
                          event->prompt_logprobs.end());
    is_done = event->finish.has_value();
  }
}

class StoredWeightsTest : public StoreTest {
 protected:
  std::string store_dir() const { return (dir_ / "store").string(); }

  EngineOptions options(Start& start, Verify verify = Verify::kBackground) const {
    EngineOptions options;
    options.num_threads = 2;
    options.weights = {.store = store_dir(), .verify = verify};
    options.progress = [&start](const Progress& progress) {
      if (start.phases.empty() || start.phases.back() != progress.phase)
        start.phases.push_back(progress.phase);
    };
    options.log = [&start](LogLevel level, std::string_view line) {
      if (level >= LogLevel::kWarning) start.log += std::string(line) + "\n";
    };
    return options;
  }

  Start run(Verify verify = Verify::kBackground) const {
    Start start;
    const auto engine = Engine::open(model(), options(start, verify));
    EXPECT_TRUE(engine) << engine.error().message;
    if (engine) answer(**engine, start);
    return start;
  }

  Start in_memory() const {
    Start start;
    EngineOptions without = options(start);
    without.weights.pack = false;
    const auto engine = Engine::open(model(), without);
    EXPECT_TRUE(engine) << engine.error().message;
    if (engine) answer(**engine, start);
    return start;
  }

  const std::string& model() const { return copy_.dir(); }

  // Of the kind, without its table.
  std::vector<std::filesystem::path> objects_of(const std::string& kind) const {
    std::vector<std::filesystem::path> found;
    for (const std::string& name : names_in(objects())) {
      if (name.starts_with(kind) && !name.ends_with(".table")) found.push_back(objects() / name);
    }
    return found;
  }

  static void write_at(const std::filesystem::path& path, int64_t offset, std::string_view text) {
    std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    ASSERT_TRUE(file.flush());
  }

  // Puts other bytes in the place of the packed weights, as a whole and valid object.
  void replace_weights(const std::function<void(std::vector<uint8_t>&)>& change) const {
    const Store store = open_store();
    for (const std::string& name : names_in(keys())) {
      if (!name.starts_with("weights-")) continue;
      const auto key = snapshot::Digest::from_hex(name.substr(8));
      ASSERT_TRUE(key);
      const auto section = store.find("weights", *key).section;
      ASSERT_TRUE(section);
      const auto object = store.map(*section);
      ASSERT_TRUE(object);
      std::vector<uint8_t> bytes(object->bytes().begin(), object->bytes().end());
      change(bytes);
      ASSERT_TRUE(store.remove(*section));
      auto writer = store.create("weights", static_cast<int64_t>(bytes.size()));
      ASSERT_TRUE(writer && writer->write(0, bytes) && writer->publish(*key, 1));
    }
  }

  CheckpointCopy copy_;
};

TEST_F(StoredWeightsTest, TheSecondStartMapsAndAnswersWithTheBitsOfMemory) {
  const Start memory = in_memory();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "store")) << "no store is touched";
  const Start first = run();
  EXPECT_THAT(first.phases, Contains("checking weights"));
  EXPECT_THAT(first.phases, Contains("packing weights"));
  const Start second = run();
  EXPECT_THAT(second.phases, ::testing::ElementsAre("building the tokenizer"));
  EXPECT_THAT(first.log + second.log, IsEmpty());
  for (const Start* start : {&first, &second}) {
    EXPECT_EQ(start->logprobs, memory.logprobs);
    EXPECT_EQ(start->ids, memory.ids);
  }
  EXPECT_THAT(memory.logprobs, SizeIs(39));
}

// Each before the first answer.
TEST_F(StoredWeightsTest, WhatIsDamagedWhereItIsUsedAtOnceIsMadeAgain) {
  const Start good = run();
  const std::map<std::string, std::function<void(const std::filesystem::path&)>> damages = {
      {"magic", [](const auto& path) { write_at(path, 0, "X"); }},
      {"header", [](const auto& path) { write_at(path, 72, "\xFF"); }},
      {"table", [](const auto& path) { write_at(path.string() + ".table", 8, "XXXX"); }},
      {"no table", [](const auto& path) { std::filesystem::remove(path.string() + ".table"); }},
      {"cut", [](const auto& path) { std::filesystem::resize_file(path, 1 << 20); }},
      {"longer", [](const auto& path) { write_at(path, file_size(path), "X"); }},
      {"gone", [](const auto& path) { std::filesystem::remove(path); }},
  };
  for (const auto& [what, damage] : damages) {
    ASSERT_THAT(objects_of("weights"), SizeIs(1)) << what;
    damage(objects_of("weights").front());
    const Start start = run();
    EXPECT_THAT(start.phases, Contains("packing weights")) << what;
    EXPECT_EQ(start.logprobs, good.logprobs) << what;
    EXPECT_EQ(run().phases.size(), 1) << what << ": it is whole again";
  }
}

TEST_F(StoredWeightsTest, AKeyFileOrFingerprintThatIsDamagedIsMadeAgain) {
  run();
  write_at(keys() / Folder::open(keys())->names()->front(), 0, "X");
  EXPECT_GT(run().phases.size(), 1);
  EXPECT_EQ(run().phases.size(), 1);
  write_at(objects_of("fingerprint").front(), 3, "x");
  const Start start = run();
  EXPECT_THAT(start.phases, Contains("reading weights"));
  EXPECT_THAT(start.phases, Not(Contains("packing weights")));
  EXPECT_EQ(run().phases.size(), 1);
}

TEST_F(StoredWeightsTest, AnotherVersionOrModelInItsPlaceIsMadeAgain) {
  const Start good = run();
  const std::map<std::string, std::function<void(std::vector<uint8_t>&)>> changes = {
      {"version: expected 1, found 9", [](auto& bytes) { bytes[8] = 9; }},
      {"matrices: expected", [](auto& bytes) { bytes[16] ^= 1; }},
      {"size: expected", [](auto& bytes) { bytes.resize(bytes.size() + (2 << 20)); }},
      {"packed weights: byte 40", [](auto& bytes) { bytes[40] ^= 1; }},
  };
  for (const auto& [reason, change] : changes) {
    replace_weights(change);
    const Start start = run();
    EXPECT_THAT(start.log, HasSubstr(reason));
    EXPECT_THAT(start.phases, Contains("packing weights"));
    EXPECT_EQ(start.logprobs, good.logprobs);
  }
}

TEST_F(StoredWeightsTest, FullVerificationFindsDamageBeforeTheFirstAnswer) {
  const Start good = run();
  const auto object = objects_of("weights").front();
  write_at(object, static_cast<int64_t>(file_size(object)) - 1, "X");
  const Start start = run(Verify::kFull);
  EXPECT_THAT(start.log, HasSubstr("event=weights_refused"));
  EXPECT_THAT(start.phases, Contains("packing weights"));
  EXPECT_EQ(start.logprobs, good.logprobs);
  const Start again = run(Verify::kFull);
  EXPECT_THAT(again.phases, Contains("verifying packed weights"));
  EXPECT_THAT(again.phases, Not(Contains("packing weights"))) << "what was made is whole";
}

TEST_F(StoredWeightsTest, DamageThatIsFoundLaterStopsTheEngineWithItsPlace) {
  const Start good = run();
  const auto object = objects_of("weights").front();
  write_at(object, static_cast<int64_t>(file_size(object)) - 1, "X");
  Start start;
  std::promise<Error> stopped;
  EngineOptions with_end = options(start);
  with_end.on_stop = [&stopped](const Error& why) { stopped.set_value(why); };
  {
    const auto engine = Engine::open(model(), with_end);
    ASSERT_TRUE(engine) << engine.error().message;
    auto why = stopped.get_future();
    ASSERT_EQ(why.wait_for(60s), std::future_status::ready);
    const Error error = why.get();
    EXPECT_EQ(error.code, ErrorCode::kCorruptData);
    EXPECT_THAT(error.message, HasSubstr(object.string()));
    EXPECT_THAT(error.message, HasSubstr("in chunk"));
    EXPECT_FALSE((*engine)->healthy());
    const auto refused = (*engine)->submit(the_request());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, error.message);
  }
  EXPECT_THAT(start.log, HasSubstr("event=weights_damaged"));
  EXPECT_FALSE(std::filesystem::exists(object));
  const Start next = run();
  EXPECT_THAT(next.phases, Contains("packing weights"));
  EXPECT_EQ(next.logprobs, good.logprobs);
}

TEST_F(StoredWeightsTest, TheSameContentIsNotPackedTwice) {
  run();
  const std::string shard = copy_.path("model-00001-of-00003.safetensors");
  ASSERT_TRUE(std::filesystem::exists(shard));
  std::filesystem::last_write_time(shard, std::filesystem::last_write_time(shard) + 1s);
  const Start touched = run();
  EXPECT_THAT(touched.phases, Contains("reading weights"));
  EXPECT_THAT(touched.phases, Not(Contains("packing weights")));
  EXPECT_EQ(run().phases.size(), 1) << "and the new time is remembered";
}

TEST_F(StoredWeightsTest, AnotherContentIsPackedAnew) {
  run();
  bool is_changed = false;
  for (const auto& file : std::filesystem::directory_iterator(copy_.dir())) {
    if (file.path().extension() != ".safetensors") continue;
    copy_.edit_shard(file.path().filename().string(), [&](auto& tensors) {
      for (auto& tensor : tensors) {
        if (tensor.name == "layers.0.attn.wkv.weight") tensor.bytes[0] ^= 1, is_changed = true;
      }
    });
  }
  ASSERT_TRUE(is_changed);
  EXPECT_THAT(run().phases, Contains("packing weights"));
  EXPECT_THAT(objects_of("weights"), SizeIs(2));
}

TEST_F(StoredWeightsTest, ACodeThatIsNotGoodIsRefusedAndNotRemembered) {
  for (const auto& file : std::filesystem::directory_iterator(copy_.dir())) {
    if (file.path().extension() != ".safetensors") continue;
    copy_.edit_shard(file.path().filename().string(), [](auto& tensors) {
      for (auto& tensor : tensors) {
        if (tensor.name == "layers.0.attn.wkv.weight") tensor.bytes[5] = '\x7F';
      }
    });
  }
  for (int i = 0; i < 2; ++i) {
    Start start;
    const auto engine = Engine::open(model(), options(start));
    ASSERT_FALSE(engine);
    EXPECT_THAT(engine.error().message, HasSubstr("layers.0.attn.wkv.weight: row 0, column 5"));
  }
  EXPECT_THAT(names_in(keys()), IsEmpty());
}

TEST_F(StoredWeightsTest, WithoutAStoreWeightsArePackedInMemory) {
  const Start good = in_memory();
  std::ofstream(dir_ / "store") << "a file";
  const Start start = run();
  EXPECT_EQ(start.logprobs, good.logprobs);
  EXPECT_THAT(start.log, HasSubstr("event=packing_in_memory reason="));
  EXPECT_EQ(std::ranges::count(start.log, '\n'), 1) << start.log;
  const auto packed = pack_model(model(), {.store = store_dir()});
  ASSERT_FALSE(packed) << "who asks for the file is told";
  EXPECT_EQ(packed.error().code, ErrorCode::kNotFound);
}

TEST_F(StoredWeightsTest, PackModelMakesWhatEnginesMap) {
  const auto first = pack_model(model(), {.store = store_dir()});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->is_new);
  EXPECT_EQ(first->path, objects_of("weights").front().string());
  EXPECT_EQ(first->num_bytes, static_cast<int64_t>(file_size(objects_of("weights").front())));
  EXPECT_THAT(first->path, HasSubstr(first->digest));
  EXPECT_EQ(run().phases.size(), 1);
  const auto second = pack_model(model(), {.store = store_dir()});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(pack_model("/no/model", {.store = store_dir()}).error().code, ErrorCode::kNotFound);
}

// ---- several processes, and disks that are full or cannot be written

class StoredWeightsProcesses : public StoredWeightsTest {
 protected:
  // In a child: the weights that a start has, or null.
  std::shared_ptr<const LoadedModel> load(const ProgressSink& progress = {}) const {
    auto loaded = LoadedModel::load(
        model(),
        {.weights = {.store = store_dir(), .verify = Verify::kFull}, .progress = progress});
    return loaded ? *std::move(loaded) : nullptr;
  }

  template <class Body>
  void in_own_mounts(const Body& body) {
    const int code =
        snapshot::run_in_child([&] { return snapshot::has_own_mounts() ? body() : kChildSkips; });
    if (code == kChildSkips) GTEST_SKIP() << "SKIP: no mount namespace can be made here";
    EXPECT_EQ(code, 0);
  }
};

TEST_F(StoredWeightsProcesses, OneOfManyPacks) {
  constexpr int kNumChildren = 5;
  std::vector<pid_t> children;
  for (int i = 0; i < kNumChildren; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto loaded = load();
      ::_exit(loaded && loaded->stored() != nullptr ? (loaded->stored()->is_new ? 1 : 0) : 99);
    }
    children.push_back(child);
  }
  int num_new = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    num_new += WEXITSTATUS(status);
  }
  EXPECT_EQ(num_new, 1);
  EXPECT_THAT(objects_of("weights"), SizeIs(1));
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

TEST_F(StoredWeightsProcesses, KilledWhilePackingItLeavesNothingThatStays) {
  for (const char* const phase : {"packing weights", "writing packed weights"}) {
    const int code = snapshot::run_in_child([&] {
      (void)load([&](const Progress& progress) {
        if (progress.phase == phase && progress.fraction > 0) ::raise(SIGKILL);
      });
      return 0;
    });
    EXPECT_EQ(code, -SIGKILL) << phase;
    EXPECT_THAT(names_in(tmp()), Not(IsEmpty())) << phase;
    EXPECT_THAT(objects_of("weights"), IsEmpty()) << phase;
  }
  const Start start = run();
  EXPECT_THAT(start.phases, Contains("packing weights"));
  EXPECT_THAT(start.log, IsEmpty());
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

TEST_F(StoredWeightsProcesses, AReadOnlyStoreGivesAndTakesNothing) {
  const auto with_read_only_store = [this](const auto& body) {
    in_own_mounts([&] {
      const std::string dir = dir_.string();
      if (::mount(dir.c_str(), dir.c_str(), nullptr, MS_BIND, nullptr) != 0) return kChildSkips;
      const int flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
      if (::mount(nullptr, dir.c_str(), nullptr, flags, nullptr) != 0) return kChildSkips;
      return body();
    });
  };
  { const Store made = open_store(); }
  with_read_only_store([&] {
    const auto loaded = load();
    EXPECT_IN_CHILD(loaded && loaded->stored() == nullptr);
    const auto packed = pack_model(model(), {.store = store_dir()});
    EXPECT_IN_CHILD(!packed && packed.error().code == ErrorCode::kIo);
    return 0;
  });
  if (IsSkipped()) return;
  run();
  with_read_only_store([&] {
    const auto loaded = load();
    EXPECT_IN_CHILD(loaded && loaded->stored() != nullptr);
    return 0;
  });
}

TEST_F(StoredWeightsProcesses, AFullDiskIsToldAndTheStartSucceeds) {
  in_own_mounts([&] {
    const std::string dir = dir_.string();
    if (::mount("none", dir.c_str(), "tmpfs", 0, "size=1m") != 0) return kChildSkips;
    const auto loaded = load();
    EXPECT_IN_CHILD(loaded && loaded->stored() == nullptr);
    const auto packed = pack_model(model(), {.store = store_dir()});
    EXPECT_IN_CHILD(!packed && packed.error().code == ErrorCode::kResourceExhausted);
    EXPECT_IN_CHILD(packed.error().message.find("bytes of free space") != std::string::npos);
    EXPECT_IN_CHILD(names_in(tmp()).empty());
    return 0;
  });
}

}  // namespace
}  // namespace stoker
