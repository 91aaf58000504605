// Snapshots made of a model and brought up again: the same answers to the bit, and every fault told
// before anybody could ask.
#include "stoker/snapshot.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <future>

#include "api/canary.h"
#include "api/snapshot_parts.h"
#include "api/snapshots.h"
#include "snapshot/store_fixture.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using snapshot::Manifest;
using snapshot::Section;
using snapshot::Snapshots;
using snapshot::Store;
using snapshot::StoreTest;
using ::testing::HasSubstr;

// Under sanitizers the same paths in a part of the work.
#ifdef STOKER_SANITIZED
constexpr int kNumQuestions = 20;
constexpr size_t kByteStep = 7;
#else
constexpr int kNumQuestions = 100;
constexpr size_t kByteStep = 1;
#endif

// Ids and the bits of log-probabilities.
using Bits = std::vector<std::pair<int32_t, float>>;

Bits answer_bits(Engine& engine, Request request) {
  request.logprobs = 0;
  Bits bits;
  auto stream = engine.submit(std::move(request));
  EXPECT_TRUE(stream) << stream.error().message;
  for (bool is_done = !stream; !is_done;) {
    const auto event = (*stream)->wait(10s);
    EXPECT_TRUE(event);
    if (!event) break;
    for (size_t i = 0; i < event->ids.size(); ++i)
      bits.emplace_back(event->ids[i], event->details[i].logprobs.logprob);
    is_done = event->finish.has_value();
  }
  return bits;
}

class SnapshotTest : public StoreTest {
 protected:
  SnapshotOptions options() const {
    SnapshotOptions options;
    options.engine.num_threads = 2;
    options.engine.weights.store = (dir_ / "store").string();
    options.engine.weights.verify = Verify::kFull;
    return options;
  }

  // With plans, which are measured here alone: what comes up later measures nothing.
  SnapshotInfo create(const std::string& model) const {
    SnapshotOptions how = options();
    how.engine.tune_seconds = 0.2;
    const auto made = create_snapshot(model, how);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : SnapshotInfo{};
  }

  Error up_error(const std::string& name) const {
    const auto up = bring_up(name, options());
    EXPECT_FALSE(up) << "came up";
    return up ? Error{ErrorCode::kInvalidArgument, "", ""} : up.error();
  }

  // The manifest with a change, in the place of the one that is there.
  std::string republish(const std::string& id, const std::function<void(Manifest&)>& change) const {
    const Store store = open_store();
    const Snapshots snapshots(store);
    Manifest manifest = *snapshots.read(*snapshots.id_of(id));
    EXPECT_TRUE(snapshots.remove(manifest.id()));
    change(manifest);
    const auto published = snapshots.publish(manifest);
    EXPECT_TRUE(published) << published.error().message;
    return manifest.id().hex();
  }

  // With an object of other content, whose digests are right.
  std::string with_part(const std::string& id, const std::string& kind,
                        const std::string& content) const {
    return republish(id, [&](Manifest& manifest) {
      const Store store = open_store();
      const auto section = store.put_text(kind, snapshot::digest_of(content), content);
      ASSERT_TRUE(section) << section.error().message;
      for (Section& old : manifest.sections) {
        if (old.kind == kind) old = *section;
      }
    });
  }

  std::string content_of(const SnapshotInfo& info, const std::string& kind) const {
    for (const SnapshotPart& part : info.parts) {
      if (part.name == kind) return snapshot::text_in(objects() / part.object);
    }
    ADD_FAILURE() << kind;
    return {};
  }
};

TEST_F(SnapshotTest, ComesBackWithoutItsCheckpoint) {
  const testing::CheckpointCopy copy;
  const SnapshotInfo made = create(copy.dir());
  const auto original = Engine::open(copy.dir(), options().engine);
  ASSERT_TRUE(original);
  Request request;
  request.prompt = TokenPrompt{{5, 6, 7, 8, 9}};
  request.max_tokens = 20;
  request.ignore_eos = true;
  const Bits expected = answer_bits(**original, request);
  std::filesystem::remove_all(copy.dir());

  const auto up = bring_up(made.id.substr(0, 6), options());
  ASSERT_TRUE(up) << up.error().message;
  EXPECT_EQ(up->engine->model().digest, (*original)->model().digest);
  EXPECT_EQ(up->engine->model().name, made.model_name);
  EXPECT_EQ(up->engine->model().max_context_tokens, (*original)->model().max_context_tokens);
  request.sampling.seed = 7;
  EXPECT_EQ(answer_bits(*up->engine, request), answer_bits(**original, request));
  request.sampling.temperature = 0;
  request.sampling.seed.reset();
  EXPECT_EQ(answer_bits(*up->engine, request), answer_bits(**original, request));
  EXPECT_EQ(expected.size(), 20U);
}

// Greedy and sampled, some with a prefix that another one has, drafts on.
TEST_F(SnapshotTest, AHundredPromptsGiveTheSameBits) {
  const SnapshotInfo made = create(testing::kDemoCheckpoint);
  const auto original = Engine::open(testing::kDemoCheckpoint, options().engine);
  ASSERT_TRUE(original) << original.error().message;
  const auto up = bring_up("demo", options());
  ASSERT_TRUE(up) << up.error().message;
  EXPECT_EQ(up->snapshot.id, made.id);
  for (int i = 0; i < kNumQuestions; ++i) {
    ChatPrompt chat;
    chat.messages = {
        {"user",
         {"What does word number " + std::to_string(i % (kNumQuestions * 3 / 5)) + " mean?"}}};
    chat.thinking = "disabled";
    Request request;
    request.prompt = chat;
    request.max_tokens = 12;
    request.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
    request.sampling.seed = static_cast<uint64_t>(i);
    const Bits expected = answer_bits(**original, request);
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(answer_bits(*up->engine, request), expected) << i;
  }
}

TEST_F(SnapshotTest, TheSameContentIsTheSameSnapshot) {
  const SnapshotInfo first = create(testing::kSmallCheckpoint);
  const size_t num_objects = names_in(objects()).size();
  EXPECT_EQ(create(testing::kSmallCheckpoint).id, first.id);
  EXPECT_EQ(names_in(objects()).size(), num_objects);
  SnapshotOptions named = options();
  named.name = "other";
  const auto second = create_snapshot(testing::kSmallCheckpoint, named);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(second->id, first.id);
  EXPECT_EQ(names_in(objects()).size(), num_objects);  // they share all of it
  EXPECT_EQ(bring_up("other", options())->snapshot.id, second->id);
  EXPECT_EQ(up_error("nobody").code, ErrorCode::kNotFound);
}

TEST_F(SnapshotTest, WhatIsMeantByANameIsJudged) {
  create(testing::kSmallCheckpoint);
  const auto passed_over = [&](const SnapshotOptions& how, const std::string& name) {
    const auto found = list_snapshots(name, how);
    EXPECT_TRUE(found);
    EXPECT_EQ(found->size(), 1U);
    return found->front().passed_over ? found->front().passed_over->message : "";
  };
  EXPECT_EQ(passed_over(options(), testing::kSmallCheckpoint), "");
  EXPECT_EQ(passed_over(options(), ""), "");
  EXPECT_THAT(passed_over(options(), testing::kDemoCheckpoint), HasSubstr("weights of"));
  EXPECT_EQ(up_error(testing::kDemoCheckpoint).code, ErrorCode::kNotFound);
  SnapshotOptions compact = options();
  compact.engine.bounded_replay = BoundedReplay::kCompact;
  EXPECT_EQ(passed_over(compact, ""),
            "options: expected bounded_replay=compact, found bounded_replay=exact");
  compact.engine.bounded_replay = BoundedReplay::kOff;  // the same bits
  EXPECT_EQ(passed_over(compact, ""), "");
}

TEST_F(SnapshotTest, OfAnotherHostBuildOrShapeItDoesNotFit) {
  std::string id = create(testing::kSmallCheckpoint).id;
  const std::pair<std::function<void(Manifest&)>, const char*> kRows[] = {
      {[](Manifest& m) { m.host_isa = "x86-amx"; }, "expected x86-avx2, found x86-amx"},
      {[](Manifest& m) { m.engine_layout = 99; }, "layout of packed weights: expected"},
      {[](Manifest& m) { m.engine_numeric = "fast-1"; }, "numeric mode: expected reference-1"},
      {[](Manifest& m) { m.ranks = 2; }, "ranks: expected 1, found 2"},
      {[](Manifest& m) { m.flags.clear(); }, "options: expected bounded_replay=exact, found "},
      {[](Manifest& m) {
         std::erase_if(m.sections, [](const Section& s) { return s.kind == "canary"; });
       },
       "sections: expected canary"}};
  for (const auto& [change, message] : kRows) {
    Manifest before;
    {
      const Store store = open_store();
      before = *Snapshots(store).read(*snapshot::Digest::from_hex(id));
    }
    id = republish(id, change);
    const Error error = up_error(id);
    EXPECT_EQ(snapshot_exit_code(error), 3) << message;
    EXPECT_THAT(error.message, HasSubstr(message));
    id = republish(id, [&](Manifest& m) { m = before; });
  }
  EXPECT_TRUE(bring_up(id, options()));
}

// One bit of each object and of each table, cut, longer, gone, a link, others may write it.
TEST_F(SnapshotTest, EveryFaultOfAFileIsRefusedWithItsCode) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  const auto flip = [](const std::filesystem::path& path) {
    std::string bytes = snapshot::text_in(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const auto resize = [](const std::filesystem::path& path, int by) {
    std::filesystem::resize_file(
        path, static_cast<uintmax_t>(static_cast<intmax_t>(std::filesystem::file_size(path)) + by));
  };
  const struct {
    const char* name;
    std::function<void(const std::filesystem::path&)> spoil;
    int code;
  } kFaults[] = {{"a bit", flip, 4},
                 {"cut", [&](const auto& path) { resize(path, -1); }, 4},
                 {"longer", [&](const auto& path) { resize(path, 1); }, 4},
                 {"gone", [](const auto& path) { std::filesystem::remove(path); }, 3},
                 {"a link",
                  [](const auto& path) {
                    std::filesystem::rename(path, path.string() + ".moved");
                    std::filesystem::create_symlink(path.string() + ".moved", path);
                  },
                  4},
                 {"writable for all", [](const auto& path) { ::chmod(path.c_str(), 0666); }, 4},
                 {"of another owner",
                  [](const auto& path) {
                    // Who is not root cannot give a file away; then it is as if others could write
                    // it.
                    if (::chown(path.c_str(), 12345, 12345) != 0) ::chmod(path.c_str(), 0666);
                  },
                  4}};
  for (const SnapshotPart& part : made.parts) {
    for (const char* suffix : {"", ".table"}) {
      const auto path = objects() / (part.object + suffix);
      const std::string good = snapshot::text_in(path);
      for (const auto& fault : kFaults) {
        std::filesystem::permissions(path, std::filesystem::perms(0600));
        fault.spoil(path);
        const auto up = bring_up(made.id, options());
        if (part.name == "plans") {
          EXPECT_TRUE(up) << fault.name << ": " << up.error().message;
        } else {
          ASSERT_FALSE(up) << part.name << suffix << " " << fault.name;
          EXPECT_EQ(snapshot_exit_code(up.error()), fault.code)
              << part.name << suffix << " " << fault.name << ": " << up.error().message;
          EXPECT_THAT(up.error().message, HasSubstr(part.name)) << fault.name;
        }
        std::filesystem::remove(path.string() + ".moved");
        std::filesystem::remove(path);
        std::ofstream(path, std::ios::binary) << good;
        std::filesystem::permissions(path, std::filesystem::perms(0400));
      }
    }
  }
  EXPECT_TRUE(bring_up(made.id, options()));
}

TEST_F(SnapshotTest, AManifestThatIsChangedAnywhereIsDamage) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  const auto path = dir_ / "store" / "snapshots" / (made.id + ".manifest");
  const std::string good = snapshot::text_in(path);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  for (size_t at = 0; at < good.size(); at += kByteStep) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    std::ofstream(path, std::ios::binary) << bad;
    ASSERT_EQ(snapshot_exit_code(up_error(made.id)), 4) << at;
    std::ofstream(path, std::ios::binary) << good.substr(0, at);
    ASSERT_EQ(snapshot_exit_code(up_error(made.id)), 4) << at;
  }
  std::ofstream(path, std::ios::binary) << good;
  EXPECT_TRUE(bring_up(made.id, options()));
}

TEST_F(SnapshotTest, WhatIsWellSealedButWildIsRefused) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  std::string long_header(8, '\0');
  long_header[6] = 1;  // of 2^48 bytes
  const std::string huge =
      R"({"layers.0.attn.wq_a.weight":{"dtype":"F32","shape":[281474976710656],"data_offsets":[0,1125899906842624]}})";
  std::string wild(8, '\0');
  wild[0] = static_cast<char>(huge.size());
  const std::pair<const char*, std::string> kRows[] = {
      {"packed", wild + huge},  {"packed", "x"},
      {"tensors", long_header}, {"tensors", "1234567"},
      {"tables", long_header},  {"config", "{}"},
      {"config", "[1"},         {"weights", "stokpack"},
      {"canary", "{}"},         {"tokenizer", "{\"model\":1}"}};
  std::string id = made.id;
  for (const auto& [kind, content] : kRows) {
    const std::string good = content_of(made, kind);
    id = with_part(id, kind, content);
    const auto up = bring_up(id, options());
    ASSERT_FALSE(up) << kind;
    EXPECT_NE(up.error().code, ErrorCode::kInternal) << kind << up.error().message;
    id = with_part(id, kind, good);
  }
  EXPECT_TRUE(bring_up(id, options()));
}

TEST_F(SnapshotTest, AWildPlanIsNotUsed) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  const std::string id = with_part(made.id, "plans", "format=1\nbf16.1=warp 9\n");
  EXPECT_TRUE(bring_up(id, options()));
}

TEST_F(SnapshotTest, OtherAnswersAreToldByTheCanary) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  auto canary = parse_canary(content_of(made, "canary"), 1 << 20);
  ASSERT_TRUE(canary);
  canary->prompts[0].tokens[3] ^= 1;
  std::string id = with_part(made.id, "canary", canary_text(*canary));
  Error error = up_error(id);
  EXPECT_EQ(snapshot_exit_code(error), 5);
  EXPECT_THAT(error.message, HasSubstr("prompt 'short', alone: token 3: expected"));
  canary->prompts[0].tokens[3] ^= 1;
  canary->prompts[2].digest.bytes[5] ^= 1;
  id = with_part(id, "canary", canary_text(*canary));
  error = up_error(id);
  EXPECT_EQ(snapshot_exit_code(error), 5);
  EXPECT_THAT(error.message,
              HasSubstr("prompt 'tools', in a batch, without drafts: expected log-probabilities"));
}

// Bytes that are good as bytes but of other weights are no damage: only the answers tell.
TEST_F(SnapshotTest, OtherTensorsAreToldByTheCanary) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  std::string tensors = content_of(made, "tensors");
  for (size_t at = tensors.size() / 2 / 2 * 2; at < tensors.size(); at += 2) {
    const int high = tensors[at + 1] & 0x7f;  // bf16 and f32 near 1
    if (high >= 0x3c && high <= 0x3f) tensors[at] = static_cast<char>(tensors[at] ^ 0x40);
  }
  EXPECT_EQ(snapshot_exit_code(up_error(with_part(made.id, "tensors", tensors))), 5);
}

TEST_F(SnapshotTest, WhatAnEngineRunsFromIsNotTaken) {
  const SnapshotInfo made = create(testing::kSmallCheckpoint);
  CollectSnapshots all;
  all.store = options().engine.weights.store;
  all.keep = 0;
  {
    const auto up = bring_up(made.id, options());
    ASSERT_TRUE(up) << up.error().message;
    EXPECT_EQ(snapshot_exit_code(remove_snapshot(made.id, options()).error()), 7);
    EXPECT_TRUE(collect_snapshots(all)->snapshots.empty());
  }
  EXPECT_EQ(collect_snapshots(all)->snapshots, std::vector{made.id});
  EXPECT_EQ(snapshot_exit_code(up_error(made.id)), 3);
}

// Zeros behind the last panel, which nobody computes with: no answer tells.
TEST_F(SnapshotTest, IsVerifiedBehindTheCanaryWhereThatIsAskedFor) {
  const SnapshotInfo made = create(testing::kDemoCheckpoint);
  const auto weights = std::ranges::find(made.parts, std::string("weights"), &SnapshotPart::name);
  ASSERT_NE(weights, made.parts.end());
  const auto path = objects() / weights->object;
  std::string bytes = snapshot::text_in(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms(0400));
  EXPECT_EQ(snapshot_exit_code(up_error(made.id)), 4);

  SnapshotOptions behind = options();
  behind.engine.weights.verify = Verify::kBackground;
  std::promise<Error> stopped;
  behind.engine.on_stop = [&stopped](const Error& why) { stopped.set_value(why); };
  const auto up = bring_up(made.id, behind);
  std::future<Error> told = stopped.get_future();
  ASSERT_EQ(told.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(told.get().message, HasSubstr(weights->object));
  if (up) {
    EXPECT_FALSE(up->engine->healthy());
  }
  EXPECT_FALSE(std::filesystem::exists(path));  // the next start does not fall for it
  EXPECT_EQ(snapshot_exit_code(up_error(made.id)), 3);
}

// In processes of their own, which may have mounts of their own.
class SnapshotProcesses : public SnapshotTest {
 protected:
  // A store of these bytes; whether what is made in it is all there or not at all.
  int create_on_disk_of(int64_t num_bytes) const {
    const std::string size = "size=" + std::to_string(num_bytes);
    if (!snapshot::has_own_mounts()) return snapshot::kChildSkips;
    if (::mount("none", dir_.c_str(), "tmpfs", 0, size.c_str()) != 0) return snapshot::kChildSkips;
    const SnapshotOptions how = options();
    const auto made = create_snapshot(testing::kSmallCheckpoint, how);
    if (made) {
      EXPECT_IN_CHILD(bring_up(made->id, how).has_value());
      return 0;
    }
    EXPECT_IN_CHILD(made.error().code == ErrorCode::kResourceExhausted ||
                    made.error().code == ErrorCode::kIo);
    const Store store = open_store();
    EXPECT_IN_CHILD(Snapshots(store).ids()->empty());
    EXPECT_IN_CHILD(names_in(tmp()).empty());
    CollectSnapshots all;
    all.store = how.engine.weights.store;
    EXPECT_IN_CHILD(collect_snapshots(all).has_value());
    for (const std::string& name : names_in(objects()))
      EXPECT_IN_CHILD(name.starts_with("plans") || name.starts_with("fingerprint"));
    return 1;
  }
};

TEST_F(SnapshotProcesses, AFullDiskLeavesAllOrNothing) {
  constexpr int64_t kStep = int64_t{256} << 10;
  int num_failed = 0;
  for (int64_t size = kStep;; size += kStep) {
    ASSERT_LT(size, int64_t{64} << 20) << "never enough";
    const int code = snapshot::run_in_child([&] { return create_on_disk_of(size); });
    if (code == snapshot::kChildSkips) GTEST_SKIP() << "no mounts here";
    ASSERT_TRUE(code == 0 || code == 1) << size << ": " << code;
    if (code == 0) break;
    ++num_failed;
  }
  EXPECT_GT(num_failed, 3);
}

}  // namespace
}  // namespace stoker
