// Snapshots of engines that run: the same bits when one comes back, with the prefixes that were
// hot; whatever is wrong with these costs time and no answer, and they never leave their store.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "api/kept_prefixes.h"
#include "snapshot/snapshots.h"
#include "snapshot/store_fixture.h"
#include "stoker/snapshot.h"
#include "stoker/snapshot_travel.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a request was answered, to the bit.
struct Replied {
  std::vector<std::pair<int32_t, float>> bits;
  int64_t cached_tokens = 0;
};

Request warm_request(int32_t length, int32_t from, double temperature) {
  Request request;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < length; ++i) ids.push_back(100 + (from + i) * 37 % 470);
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = 8;
  request.ignore_eos = true;
  request.logprobs = 0;
  request.sampling.temperature = temperature;
  request.sampling.seed = 11;
  request.sampling.banned_token_ids = {577};  // an image's: with it in an answer nothing is saved
  return request;
}

Replied replied(Stream& stream) {
  Replied out;
  for (int i = 0; i < 600; ++i) {
    const auto event = stream.wait(100ms);
    if (!event) continue;
    for (size_t j = 0; j < event->ids.size(); ++j)
      out.bits.emplace_back(event->ids[j], event->details[j].logprobs.logprob);
    if (!event->finish) continue;
    EXPECT_FALSE(event->finish->error) << event->finish->error->message;
    out.cached_tokens = event->finish->usage.cached_tokens;
    return out;
  }
  ADD_FAILURE() << "a request never ended";
  return out;
}

Replied replied(Engine& engine, Request request) {
  const auto stream = engine.submit(std::move(request));
  EXPECT_TRUE(stream) << stream.error().message;
  return stream ? replied(**stream) : Replied{};
}

class SaveTest : public snapshot::StoreTest {
 protected:
  SnapshotOptions options() {
    SnapshotOptions options;
    options.engine.num_threads = 2;
    options.engine.kv_budget_bytes = int64_t{64} << 20;
    options.engine.weights.store = (dir_ / "store").string();
    options.engine.weights.verify = Verify::kFull;
    options.engine.log = [this](LogLevel, std::string_view line) {
      log_ += "\n" + std::string(line);
    };
    return options;
  }

  std::unique_ptr<Engine> from_checkpoint(const std::string& model = testing::kSmallCheckpoint) {
    auto engine = Engine::open(model, options().engine);
    EXPECT_TRUE(engine) << engine.error().message;
    return engine ? *std::move(engine) : nullptr;
  }

  std::unique_ptr<Engine> up(const std::string& id) {
    log_.clear();
    auto up = bring_up(id, options());
    EXPECT_TRUE(up) << up.error().message;
    if (!up) return nullptr;
    stages_ = std::move(up->stages);
    return std::move(up->engine);
  }

  static SavedSnapshot save(Engine& engine, int max_prefixes = 0, const std::string& name = {}) {
    SaveSnapshot what;
    what.max_prefixes = max_prefixes;
    what.name = name;
    const auto saved = engine.save_snapshot(what);
    EXPECT_TRUE(saved) << saved.error().message;
    return saved ? *saved : SavedSnapshot{};
  }

  static std::string object_of(const SavedSnapshot& saved, std::string_view part) {
    for (const SnapshotPart& one : saved.info.parts) {
      if (one.name == part) return one.object;
    }
    return {};
  }

  std::string log_;
  std::vector<StageTime> stages_;
};

TEST_F(SaveTest, OfACheckpointsEngineItIsTheSnapshotThatCreateMakes) {
  const auto engine = from_checkpoint();
  replied(*engine, warm_request(200, 0, 0));
  const SavedSnapshot saved = save(*engine);
  EXPECT_EQ(saved.num_prefixes, 0);
  EXPECT_EQ(object_of(saved, "prefix"), "");
  const auto made = create_snapshot(testing::kSmallCheckpoint, options());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->id, saved.info.id);
  const auto back = up(saved.info.id);
  ASSERT_TRUE(back);
  EXPECT_EQ(stages_.back().name, "canary");
  for (const double temperature : {0.0, 0.9}) {
    const Request request = warm_request(200, 3, temperature);
    EXPECT_EQ(replied(*back, request).bits, replied(*engine, request).bits);
  }
}

// Of an engine from a snapshot without its checkpoint, under another name; and again of that one.
TEST_F(SaveTest, OfASnapshotsEngineItNamesTheSameObjects) {
  const testing::CheckpointCopy copy;
  const auto made = create_snapshot(copy.dir(), options());
  ASSERT_TRUE(made) << made.error().message;
  std::filesystem::remove_all(copy.dir());
  const auto first = up(made->id);
  ASSERT_TRUE(first);
  EXPECT_EQ(save(*first).info.id, made->id);
  const size_t num_objects = names_in(objects()).size();
  const SavedSnapshot saved = save(*first, 0, "other");
  EXPECT_EQ(names_in(objects()).size(), num_objects);
  EXPECT_NE(saved.info.id, made->id);
  EXPECT_EQ(saved.info.model_name, "other");
  const auto second = up("other");
  ASSERT_TRUE(second);
  EXPECT_EQ(save(*second).info.id, saved.info.id);
  const Request request = warm_request(150, 5, 0.7);
  EXPECT_EQ(replied(*second, request).bits, replied(*first, request).bits);
}

TEST_F(SaveTest, HotPrefixesComeBack) {
  const auto engine = from_checkpoint(testing::kDemoCheckpoint);
  for (const int32_t from : {0, 400, 0}) replied(*engine, warm_request(300, from, 0));
  Request salted = warm_request(300, 700, 0);
  salted.cache_salt = "of one user";
  replied(*engine, salted);
  const SavedSnapshot saved = save(*engine, 10);
  EXPECT_EQ(saved.num_prefixes, 2);
  EXPECT_EQ(saved.num_prefix_tokens, 2 * 256);
  const std::string object = object_of(saved, "prefix");
  struct stat status {};
  ASSERT_EQ(::stat((objects() / object).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400U);
  EXPECT_EQ(status.st_uid, ::geteuid());

  const auto back = up(saved.info.id);
  ASSERT_TRUE(back);
  EXPECT_EQ(stages_.back().name, "prefixes");
  EXPECT_EQ(stages_.back().how, "2 with 512 tokens");
  EXPECT_THAT(log_, HasSubstr("event=prefixes loaded=2 tokens=512"));
  const auto cold = from_checkpoint(testing::kDemoCheckpoint);
  int32_t from = 0;
  for (const double temperature : {0.0, 0.9}) {
    const Request request = warm_request(300, from, temperature);
    const Replied expected = replied(*cold, request);
    const Replied found = replied(*back, request);
    EXPECT_EQ(expected.cached_tokens, 0);
    EXPECT_EQ(found.cached_tokens, 256);
    EXPECT_EQ(found.bits, expected.bits);
    from += 400;
  }
  EXPECT_EQ(replied(*back, warm_request(300, 700, 0)).cached_tokens, 0);
  // The one last used alone; and of an engine that came back with them.
  const SavedSnapshot one = save(*back, 1);
  EXPECT_EQ(one.num_prefixes, 1);
  const auto again = up(one.info.id);
  ASSERT_TRUE(again);
  EXPECT_EQ(replied(*again, warm_request(300, 700, 0)).cached_tokens, 256);
  EXPECT_EQ(replied(*again, warm_request(300, 0, 0)).cached_tokens, 0);
}

// The canary neither forgets what is hot nor leaves anything to others; streams go on.
TEST_F(SaveTest, OthersAreAnsweredMeanwhile) {
  const auto engine = from_checkpoint();
  Request request = warm_request(300, 0, 0.8);
  const Replied alone = replied(*engine, request);
  request.max_tokens = 400;
  const Replied whole = replied(*engine, request);
  const auto stream = engine->submit(request);
  ASSERT_TRUE(stream);
  EXPECT_EQ(save(*engine, 5).num_prefixes, 1);
  EXPECT_EQ(replied(**stream).bits, whole.bits);
  request.max_tokens = 8;
  EXPECT_EQ(replied(*engine, request).cached_tokens, 256);
  EXPECT_EQ(replied(*engine, request).bits, alone.bits);
  EXPECT_EQ(engine->cached_prefixes(100)->size(), 1U);
}

TEST_F(SaveTest, WhatCannotBeSavedIsRefused) {
  const auto engine = from_checkpoint();
  const auto error_of = [](Engine& of, SaveSnapshot what) {
    const auto saved = of.save_snapshot(what);
    EXPECT_FALSE(saved);
    return saved ? Error{} : saved.error();
  };
  for (const int wrong : {-1, 257}) {
    SaveSnapshot what;
    what.max_prefixes = wrong;
    const Error error = error_of(*engine, what);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.field, "prefixes");
  }
  SaveSnapshot named;
  named.name = "a\nb";
  EXPECT_EQ(error_of(*engine, named).field, "name");
  named.name = std::string(257, 'a');
  EXPECT_EQ(error_of(*engine, named).field, "name");
  SaveSnapshot given_up;
  given_up.is_cancelled = [] { return true; };
  EXPECT_EQ(error_of(*engine, given_up).code, ErrorCode::kCancelled);
  {
    const snapshot::Store store = open_store();
    const auto collects = snapshot::Snapshots(store).change(snapshot::Sharing::kAlone);
    ASSERT_TRUE(collects);
    const Error error = error_of(*engine, {});
    EXPECT_EQ(snapshot_exit_code(error), 7) << error.message;
  }
  EngineOptions unpacked = options().engine;
  unpacked.weights.pack = false;
  auto other = Engine::open(testing::kSmallCheckpoint, unpacked);
  ASSERT_TRUE(other);
  EXPECT_EQ(error_of(**other, {}).code, ErrorCode::kUnsupported);
  EXPECT_THAT(error_of(**other, {}).message, HasSubstr("--no-pack"));
  EngineOptions uncached = options().engine;
  uncached.prefix_caching = false;
  other = Engine::open(testing::kSmallCheckpoint, uncached);
  ASSERT_TRUE(other);
  SaveSnapshot with_prefixes;
  with_prefixes.max_prefixes = 1;
  EXPECT_EQ(error_of(**other, with_prefixes).code, ErrorCode::kUnsupported);
  EXPECT_TRUE((*other)->save_snapshot({}));
  // A prompt of the canary that is cancelled is no answer.
  ASSERT_TRUE((*other)->sleep(SleepLevel::kNothing, false));
  EXPECT_EQ(error_of(**other, {}).code, ErrorCode::kResourceExhausted);
}

// What a snapshot is made of does not go from under it.
TEST_F(SaveTest, AnEngineThatIsQuiescedMeanwhileGivesUp) {
  const auto engine = from_checkpoint();
  const SavedSnapshot before = save(*engine);
  std::promise<void> begun;
  SaveSnapshot what;
  bool is_first = true;
  what.is_cancelled = [&] {
    if (std::exchange(is_first, false)) begun.set_value();
    std::this_thread::sleep_for(50ms);
    return false;
  };
  auto saving = std::async(std::launch::async, [&] { return engine->save_snapshot(what); });
  begun.get_future().wait();
  ASSERT_TRUE(engine->quiesce(0ms));
  const auto given_up = saving.get();
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(engine->save_snapshot({}).error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(engine->resume({options().engine.weights.store}));
  EXPECT_EQ(save(*engine).info.id, before.info.id);
}

// What the manifest names was read whole, also behind an engine that came up without.
TEST_F(SaveTest, DamageIsFoundBefore) {
  const auto engine = from_checkpoint(testing::kDemoCheckpoint);
  const SavedSnapshot saved = save(*engine);
  const auto path = objects() / object_of(saved, "weights");
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);  // zeros behind the last panel: no answer tells
  file.put(1);
  file.close();
  const auto again = engine->save_snapshot({});
  ASSERT_FALSE(again);
  EXPECT_EQ(snapshot_exit_code(again.error()), 4);
  EXPECT_THAT(again.error().message, HasSubstr(object_of(saved, "weights")));
}

// The prefixes are dropped with a line of the log, and the engine comes up all the same.
TEST_F(SaveTest, WhateverIsWrongWithPrefixesTheyAreDropped) {
  const auto engine = from_checkpoint();
  replied(*engine, warm_request(300, 0, 0));
  const SavedSnapshot saved = save(*engine, 1);
  const auto path = objects() / object_of(saved, "prefix");
  const auto table = path.string() + ".table";
  using Path = std::filesystem::path;
  const auto flip = [](const Path& file, size_t at) {
    std::string bytes = snapshot::text_in(file);
    bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  };
  const auto resize = [](const Path& file, int by) {
    std::filesystem::resize_file(
        file, static_cast<uintmax_t>(static_cast<intmax_t>(std::filesystem::file_size(file)) + by));
  };
  const struct {
    const char* name;
    std::function<void(const Path&)> spoil;
  } kFaults[] = {
      {"the first byte", [&](const Path& p) { flip(p, 0); }},
      {"a bit of the count", [&](const Path& p) { flip(p, 16); }},
      {"a bit of a size", [&](const Path& p) { flip(p, 25); }},
      {"a bit in the middle", [&](const Path& p) { flip(p, std::filesystem::file_size(p) / 2); }},
      {"cut", [&](const Path& p) { resize(p, -1); }},
      {"longer", [&](const Path& p) { resize(p, 1); }},
      {"gone", [](const Path& p) { std::filesystem::remove(p); }},
      {"no table", [&](const Path&) { std::filesystem::remove(table); }},
      {"others may read it", [](const Path& p) { ::chmod(p.c_str(), 0444); }},
      {"its group may read it", [](const Path& p) { ::chmod(p.c_str(), 0440); }},
      {"of another owner", [](const Path& p) {
         // Who is not root cannot give a file away; then it is as if others could read it.
         if (::chown(p.c_str(), 12345, 12345) != 0) ::chmod(p.c_str(), 0444);
       }}};
  const std::string good = snapshot::text_in(path);
  const std::string good_table = snapshot::text_in(table);
  for (const auto& fault : kFaults) {
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    fault.spoil(path);
    const auto back = up(saved.info.id);
    ASSERT_TRUE(back) << fault.name;
    EXPECT_THAT(log_, HasSubstr("event=prefixes loaded=0 tokens=0 dropped=all reason="))
        << fault.name;
    EXPECT_EQ(replied(*back, warm_request(300, 0, 0)).cached_tokens, 0) << fault.name;
    for (const auto& [file, bytes] : {std::pair(path, good), std::pair(Path(table), good_table)}) {
      std::filesystem::remove(file);
      std::ofstream(file, std::ios::binary) << bytes;
      std::filesystem::permissions(file, std::filesystem::perms(0400));
    }
  }
  const auto back = up(saved.info.id);
  ASSERT_TRUE(back);
  EXPECT_EQ(replied(*back, warm_request(300, 0, 0)).cached_tokens, 256);
}

TEST_F(SaveTest, PrefixesThatDoNotFitAreDropped) {
  const auto engine = from_checkpoint();
  replied(*engine, warm_request(140, 500, 0));
  replied(*engine, warm_request(1500, 0, 0));
  const SavedSnapshot saved = save(*engine, 5);
  ASSERT_EQ(saved.num_prefixes, 2);
  SnapshotOptions uncached = options();
  uncached.engine.prefix_caching = false;
  log_.clear();
  EXPECT_TRUE(bring_up(saved.info.id, uncached));
  EXPECT_THAT(log_,
              HasSubstr("loaded=0 tokens=0 dropped=2 reason=\"expected an engine with a prefix"));
  SnapshotOptions shorter = options();
  shorter.engine.max_model_len = 1000;
  log_.clear();
  EXPECT_TRUE(bring_up(saved.info.id, shorter));
  EXPECT_THAT(log_, HasSubstr("loaded=1 tokens=128 dropped=1 reason="));
}

TEST_F(SaveTest, PrefixesDoNotTravel) {
  const auto engine = from_checkpoint();
  replied(*engine, warm_request(300, 0, 0));
  const SavedSnapshot saved = save(*engine, 1);
  const std::string& id = saved.info.id;
  const auto refused = [](const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr("cached prefixes"));
  };
  const std::string stream = (dir_ / "stream").string();
  refused(export_snapshot(id, stream, options()).error());
  EXPECT_FALSE(std::filesystem::exists(stream) || std::filesystem::exists(stream + ".part"));
  refused(push_snapshot(id, (dir_ / "catalogue").string(), options()).error());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "catalogue"));
  // A store whose owner wrote an index by hand.
  const SavedSnapshot plain = save(*engine);
  ASSERT_TRUE(push_snapshot(plain.info.id, (dir_ / "catalogue").string(), options()));
  for (const char* const folder : {"objects", "snapshots"}) {
    std::filesystem::copy(dir_ / "store" / folder, dir_ / "catalogue" / folder,
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  }
  const std::string index = "format=1\nsnapshot=" + id + " checkpoint\n";
  std::ofstream(dir_ / "catalogue" / "index")
      << index << "end=" << snapshot::digest_of(index).hex() << "\n";
  SnapshotOptions elsewhere = options();
  elsewhere.engine.weights.store = (dir_ / "other").string();
  refused(pull_snapshot(id, (dir_ / "catalogue").string(), elsewhere).error());
  const auto by_name = pull_snapshot("checkpoint", (dir_ / "catalogue").string(), elsewhere);
  EXPECT_THAT(by_name.error().message,
              AllOf(HasSubstr(id.substr(0, 8)), HasSubstr("cached prefixes")));
}

// What a collection takes.
TEST_F(SaveTest, PrefixesGoWithTheirSnapshot) {
  const auto engine = from_checkpoint();
  replied(*engine, warm_request(300, 0, 0));
  const SavedSnapshot saved = save(*engine, 1);
  ASSERT_TRUE(remove_snapshot(saved.info.id, options()));
  CollectSnapshots all;
  all.store = options().engine.weights.store;
  const auto gone = collect_snapshots(all);
  ASSERT_TRUE(gone);
  EXPECT_THAT(gone->objects, ::testing::Contains(object_of(saved, "prefix")));
  for (const std::string& name : names_in(objects())) EXPECT_THAT(name, Not(HasSubstr("prefix")));
}

TEST(KeptPrefixes, BytesAreWhatTheirHeadSays) {
  const std::vector<KeptPrefix> prefixes = {{{1, 2, 3}, 128}, {{4}, 128}};
  const std::string head = kept_prefixes_head(prefixes);
  std::string good = head + std::string("\1\2\3\4");
  const auto split = split_kept_prefixes(snapshot::bytes_of(good));
  ASSERT_TRUE(split);
  ASSERT_EQ(split->size(), 2U);
  EXPECT_THAT((*split)[0], ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT((*split)[1], ::testing::ElementsAre(4));
  const auto code_of = [](const std::string& bytes) {
    const auto wrong = split_kept_prefixes(snapshot::bytes_of(bytes));
    EXPECT_FALSE(wrong);
    return wrong ? ErrorCode::kInternal : wrong.error().code;
  };
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(code_of(good.substr(0, size)), ErrorCode::kCorruptData) << size;
  EXPECT_EQ(code_of(good + "x"), ErrorCode::kCorruptData);
  const auto with = [&good](size_t at, char byte) {
    std::string bad = good;
    bad[at] = byte;
    return bad;
  };
  EXPECT_EQ(code_of(with(0, 'x')), ErrorCode::kCorruptData);
  EXPECT_EQ(code_of(with(8, 2)), ErrorCode::kUnsupported);
  for (const char count : {0, 1, 3}) EXPECT_EQ(code_of(with(16, count)), ErrorCode::kCorruptData);
  EXPECT_EQ(code_of(with(23, '\x80')), ErrorCode::kCorruptData);  // a count below 0
  EXPECT_EQ(code_of(with(17, 1)), ErrorCode::kCorruptData);       // 258 of them
  for (const char size : {0, 4, 5}) EXPECT_EQ(code_of(with(24, size)), ErrorCode::kCorruptData);
  EXPECT_EQ(code_of(with(31, '\x80')), ErrorCode::kCorruptData);
}

}  // namespace
}  // namespace stoker
