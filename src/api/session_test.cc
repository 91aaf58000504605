// Prefixes and conversations that another engine takes up, through the door and the store: equal
// ids and log-probabilities, and everything that is damaged or another model's refused or without
// its state.
#include "stoker/session.h"

#include <gmock/gmock.h>

#include <fstream>

#include "api/prefix_bytes.h"
#include "api/session_bytes.h"
#include "snapshot/store_fixture.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using testing::CheckpointCopy;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EngineOptions quiet(int num_threads = 1) {
  EngineOptions options;
  options.num_threads = num_threads;
  options.kv_budget_bytes = int64_t{64} << 20;
  options.tune = false;
  return options;
}

std::unique_ptr<Engine> opened(const std::string& model, const EngineOptions& options) {
  auto engine = Engine::open(model, options);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

struct Told {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<PositionLogprobs> logprobs;
  int64_t cached_tokens = 0;
};

Told told(Engine& engine, Request request) {
  request.logprobs = 2;
  Told told;
  auto stream = engine.submit(std::move(request));
  EXPECT_TRUE(stream) << stream.error().message;
  for (int i = 0; stream && i < 600; ++i) {
    const auto event = (*stream)->wait(100ms);
    if (!event) continue;
    told.text += event->text;
    told.ids.insert(told.ids.end(), event->ids.begin(), event->ids.end());
    for (const TokenDetail& detail : event->details) told.logprobs.push_back(detail.logprobs);
    if (!event->finish) continue;
    told.cached_tokens = event->finish->usage.cached_tokens;
    return told;
  }
  ADD_FAILURE() << "a request never ended";
  return told;
}

std::vector<int32_t> some_ids(int64_t length, int64_t from = 0) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<int32_t>(100 + (from + i) * 37 % 900));
  return ids;
}

Request of_ids(std::vector<int32_t> ids, double temperature) {
  Request request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = 8;
  request.sampling.temperature = temperature;
  request.sampling.seed = 5;
  request.ignore_eos = true;
  return request;
}

Session long_session(const std::string& name = "paris") {
  Session session{name, {}, "disabled", std::nullopt};
  std::string question = "What is the capital of France?";
  for (int i = 0; i < 25; ++i) question += " Say it in one word, and not in two words or in three.";
  session.messages = {
      {"system", {"Answer in one word."}}, {"user", {question}}, {"assistant", {"Paris."}}};
  return session;
}

Request turn_of(const Session& session, const std::string& text) {
  Request request;
  ChatPrompt prompt{session.messages, session.thinking, session.reasoning_effort};
  prompt.messages.push_back({"user", {text}});
  request.prompt = std::move(prompt);
  request.max_tokens = 12;
  request.sampling.temperature = 0;
  return request;
}

class SessionTest : public snapshot::StoreTest {
 protected:
  std::string store() const { return (dir_ / "store").string(); }

  // An engine that was asked what the session has been asked.
  static std::unique_ptr<Engine> engine_after(const Session& session, int num_threads = 1) {
    auto engine = opened("demo", quiet(num_threads));
    Session before = session;
    before.messages.resize(before.messages.size() - 2);
    told(*engine, turn_of(before, session.messages[session.messages.size() - 2].content[0]));
    return engine;
  }

  // The file of the only session there is.
  std::filesystem::path object() const {
    for (const auto& entry : std::filesystem::directory_iterator(objects())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("session-") && !name.ends_with(".table")) return entry.path();
    }
    return {};
  }

  static void damage(const std::filesystem::path& path, int64_t at) {
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  }
};

TEST_F(SessionTest, APrefixGoesOnInAnotherEngine) {
  const auto engine = opened("demo", quiet(2));
  for (const double temperature : {0.0, 1.0}) {
    std::vector<int32_t> ids = temperature > 0 ? some_ids(300) : some_ids(200, 1);
    const Told answer = told(*engine, of_ids(ids, temperature));
    ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
    const auto kept = engine->save_prefix(ids);
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(kept->num_tokens, static_cast<int64_t>(ids.size()) / 128 * 128);
    EXPECT_EQ(engine->save_prefix(ids)->bytes, kept->bytes);
    ids.insert(ids.end(), {7, 8, 9});
    const Told here = told(*engine, of_ids(ids, temperature));
    for (const bool drafts : {true, false}) {
      EngineOptions options = quiet(drafts ? 3 : 1);
      if (!drafts) options.speculation.mode = Speculation::kOff;
      const auto other = opened("demo", options);
      const auto loaded = other->load_prefix(kept->bytes);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_EQ(*loaded, kept->num_tokens);
      const Told there = told(*other, of_ids(ids, temperature));
      EXPECT_EQ(there.ids, here.ids);
      EXPECT_EQ(there.logprobs, here.logprobs);
      EXPECT_EQ(there.cached_tokens, kept->num_tokens);
      EXPECT_EQ(other->save_prefix(std::vector(ids.begin(), ids.begin() + *loaded))->bytes,
                kept->bytes);
    }
  }
  const auto prefixes = engine->cached_prefixes(10);
  ASSERT_TRUE(prefixes);
  EXPECT_EQ(prefixes->size(), 2U);
}

TEST_F(SessionTest, NothingButItsOwnBytesIsLoaded) {
  const auto engine = opened("demo", quiet());
  const std::vector<int32_t> ids = some_ids(140);
  told(*engine, of_ids(ids, 0));
  auto bytes = engine->save_prefix(ids)->bytes;
  const auto code = [&] { return engine->load_prefix(bytes).error().code; };
  constexpr size_t kHead = 88 + 13 * 8 + 3 * 8;
  for (size_t at = 0; at < kHead + 2000; ++at) {
    bytes[at] ^= 4;
    ASSERT_FALSE(engine->load_prefix(bytes)) << "byte " << at;
    bytes[at] ^= 4;
  }
  for (size_t size = 0; size < kHead + 700; ++size)
    ASSERT_FALSE(engine->load_prefix(std::span(bytes).first(size))) << size;
  bytes.push_back(0);
  EXPECT_EQ(code(), ErrorCode::kCorruptData);
  bytes.pop_back();
  ASSERT_TRUE(engine->load_prefix(bytes));

  ModelInfo other = engine->model();
  other.numeric_mode = "reference-2";
  seal_prefix(bytes, other);
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(engine->load_prefix(bytes).error().message,
              HasSubstr("numeric mode: expected reference-1, found reference-2"));
  other = engine->model();
  other.digest[3] = other.digest[3] == '0' ? '1' : '0';
  seal_prefix(bytes, other);
  EXPECT_THAT(engine->load_prefix(bytes).error().message,
              HasSubstr("model digest: expected " + engine->model().digest));
}

TEST_F(SessionTest, APrefixThatCannotBeUsedIsRefused) {
  const auto engine = opened("demo", quiet());
  const std::vector<int32_t> ids = some_ids(700);
  EXPECT_EQ(engine->save_prefix(ids).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(engine->save_prefix({-1}).error().code, ErrorCode::kInvalidArgument);
  told(*engine, of_ids(ids, 0));
  const auto kept = engine->save_prefix(ids);
  ASSERT_TRUE(kept);
  EngineOptions options = quiet();
  options.max_model_len = 500;
  EXPECT_EQ(opened("demo", options)->load_prefix(kept->bytes).error().code,
            ErrorCode::kInvalidArgument);
  options = quiet();
  options.kv_budget_bytes = int64_t{64} << 10;
  options.max_num_seqs = 1;
  const auto small = opened("demo", options)->load_prefix(kept->bytes);
  EXPECT_EQ(small.error().code, ErrorCode::kResourceExhausted) << small.error().message;
  options = quiet();
  options.prefix_caching = false;
  const auto without = opened("demo", options);
  EXPECT_EQ(without->load_prefix(kept->bytes).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(without->save_prefix(ids).error().code, ErrorCode::kUnsupported);
}

TEST_F(SessionTest, AKeptConversationGoesOnElsewhere) {
  const Session session = long_session();
  const auto engine = engine_after(session, 2);
  const auto kept = keep_session(*engine, session, store());
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->num_messages, 3);
  EXPECT_GE(kept->num_tokens, 128);
  const Told here = told(*engine, turn_of(session, "And of Italy?"));

  const auto other = opened("demo", quiet());
  const auto loaded = load_session(*other, "paris", store());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_FALSE(loaded->why_not);
  EXPECT_EQ(loaded->num_tokens, kept->num_tokens);
  EXPECT_EQ(loaded->session.thinking, "disabled");
  ASSERT_EQ(loaded->session.messages.size(), 3U);
  EXPECT_EQ(loaded->session.messages[1].content, session.messages[1].content);
  const Told there = told(*other, turn_of(loaded->session, "And of Italy?"));
  EXPECT_EQ(there.ids, here.ids);
  EXPECT_EQ(there.logprobs, here.logprobs);
  EXPECT_EQ(there.cached_tokens, kept->num_tokens);
}

TEST_F(SessionTest, ALaterOneTakesThePlaceAndOneIsForgotten) {
  const auto engine = opened("demo", quiet());
  Session session{"a.b-c_1", {{"user", {"Hi"}}, {"assistant", {"Hello."}}}, {}, "20"};
  ASSERT_TRUE(keep_session(*engine, session, store()));
  session.messages.push_back({"user", {"Bye"}});
  session.messages.push_back({"assistant", {"Bye.", "Bye."}, "Rude not to."});
  const auto kept = keep_session(*engine, session, store());
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->num_tokens, 0) << "too short for a place to begin at";
  ASSERT_TRUE(keep_session(*engine, session, store())) << "the same again";
  EXPECT_EQ(names_in(objects()).size(), 2U) << "an object and its table";
  const auto loaded = load_session(*engine, session.name, store());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->session.messages[3].reasoning_content, "Rude not to.");
  EXPECT_EQ(loaded->session.messages[3].content.size(), 2U);
  EXPECT_EQ(loaded->session.reasoning_effort, "20");
  const auto all = kept_sessions(*engine, store());
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(Field(&KeptSession::name, "a.b-c_1")));
  ASSERT_TRUE(forget_session(*engine, session.name, store()));
  EXPECT_THAT(*kept_sessions(*engine, store()), IsEmpty());
  EXPECT_EQ(load_session(*engine, session.name, store()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(forget_session(*engine, session.name, store()).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(names_in(objects()), IsEmpty());
  for (const std::string name : {"", "Paris", "a/b", "a b"}) {
    session.name = name;
    EXPECT_EQ(keep_session(*engine, session, store()).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(load_session(*engine, name, store()).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(SessionTest, DamagedStateLeavesTheMessages) {
  // Old reasoning is no part of a prompt; it fills the first chunk, so that the last one has
  // nothing but state.
  Session session = long_session();
  const auto engine = engine_after(session);
  session.messages[2].reasoning_content = std::string(snapshot::kChunkBytes - (20 << 10), 'x');
  const auto kept = keep_session(*engine, session, store());
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_GE(kept->num_tokens, 128);
  ASSERT_GT(kept->num_bytes, snapshot::kChunkBytes);
  damage(object(), kept->num_bytes - 1);
  const auto other = opened("demo", quiet());
  const auto loaded = load_session(*other, "paris", store());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->session.messages.size(), 3U);
  EXPECT_EQ(loaded->num_tokens, 0);
  ASSERT_TRUE(loaded->why_not);
  EXPECT_EQ(loaded->why_not->code, ErrorCode::kCorruptData);
  EXPECT_THAT(loaded->why_not->message, HasSubstr("in chunk 1,"));
  EXPECT_EQ(told(*other, turn_of(loaded->session, "And of Italy?")).ids,
            told(*engine, turn_of(session, "And of Italy?")).ids);
}

TEST_F(SessionTest, DamagedMessagesAreNotRead) {
  const Session session = long_session();
  const auto engine = engine_after(session);
  ASSERT_TRUE(keep_session(*engine, session, store()));
  damage(object(), 100);
  const auto loaded = load_session(*engine, "paris", store());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(*kept_sessions(*engine, store()), IsEmpty());
  ASSERT_TRUE(keep_session(*engine, session, store())) << "and it can be kept again";
  EXPECT_TRUE(load_session(*engine, "paris", store()));
}

TEST_F(SessionTest, OfAnotherModelComesWithoutItsState) {
  const Session session = long_session();
  ASSERT_TRUE(keep_session(*engine_after(session), session, store()));
  const CheckpointCopy copy(testing::kDemoCheckpoint);
  copy.edit_json("config.json", "text_config.routed_scaling_factor", Json::real(1.25));
  EngineOptions options = quiet();
  options.weights.store = store();
  const auto other = opened(copy.dir(), options);
  const auto loaded = load_session(*other, "paris", store());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->session.messages.size(), 3U);
  EXPECT_EQ(loaded->num_tokens, 0);
  ASSERT_TRUE(loaded->why_not);
  EXPECT_THAT(loaded->why_not->message, HasSubstr("is of another model: expected "));
  const auto all = kept_sessions(*other, store());
  ASSERT_EQ(all->size(), 1U);
  EXPECT_FALSE(all->front().is_of_model);
  EXPECT_EQ(all->front().model, "demo");
}

TEST(SessionBytes, MessagesAreReadAsTheyWereWritten) {
  SessionText text;
  text.session = long_session();
  text.session.messages.push_back(
      {"assistant", {}, "why", {{"id", "tide", R"({"harbour": "Hull"})"}}});
  text.session.messages.push_back({"tool", {"3 m"}, "", {}, "id"});
  text.model = "demo";
  text.model_digest = std::string(32, 'a');
  text.numeric_mode = "reference-1";
  text.num_tokens = 256;
  const std::string json = session_json(text);
  const auto read = parse_session_json(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(session_json(*read), json);
  EXPECT_EQ(read->session.messages[3].tool_calls[0].arguments, R"({"harbour": "Hull"})");
  for (size_t size = 0; size < json.size(); ++size)
    ASSERT_FALSE(parse_session_json(json.substr(0, size))) << size;
  for (const char* other : {R"({"name": "a"})", R"([])",
                            R"({"name":"a","model":"m","model_digest":"0","numeric_mode":"r",)"
                            R"("tokens":1,"messages":[]})"})
    EXPECT_EQ(parse_session_json(other).error().code, ErrorCode::kCorruptData) << other;
}

}  // namespace
}  // namespace stoker
