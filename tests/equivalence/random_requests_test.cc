// Random parameters of requests on the small model, many that contradict each other or are out of
// range: nothing aborts, what is refused is refused by the name of its field, each token is the one
// that the plain twin of the sampler chooses, and each answer is the same in other company. Some
// hundreds of requests, or STOKER_RANDOM_REQUESTS of them; prints its seed, and takes
// STOKER_DRIVER_SEED.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "api/resolve.h"
#include "base/json.h"
#include "equivalence/stepped_engine.h"
#include "sampling/plain.h"
#include "server/http_error.h"
#include "server/openai_answer.h"
#include "server/request_parser.h"
#include "support/checkpoint.h"

namespace stoker::testing {
namespace {

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? std::atoll(value) : otherwise;
}

int64_t num_requests() {
  return from_environment("STOKER_RANDOM_REQUESTS", 600) / 2;  // of each of the two tests
}

uint32_t first_seed() {
  return static_cast<uint32_t>(from_environment("STOKER_DRIVER_SEED", std::random_device{}()));
}

class RandomRequest {
 public:
  RandomRequest(std::mt19937& random, const ModelConfig& config)
      : random_(random), vocab_(config.vocab_size), image_id_(config.image_token_id) {}

  Request draw() {
    Request request;
    request.prompt = TokenPrompt{ids(1, random_() % 8 == 0 ? 200 : 12)};
    SamplingParams& sampling = request.sampling;
    if (often()) sampling.temperature = one_of({0, 0.01, 0.5, 1, 1.5, 10, 1e30, -1});
    if (often()) sampling.top_p = one_of({1e-9, 0.1, 0.9, 0.999999, 1, 0, 1.5});
    if (often()) sampling.top_k = static_cast<int32_t>(one_of({-1, 0, 1, 5, 100, 1e9, -2}));
    if (often()) sampling.min_p = one_of({0, 1e-12, 0.01, 0.5, 1, 2});
    if (often()) sampling.repetition_penalty = one_of({1, 1.2, 0.5, 1e6, 1e-6, 0});
    if (often()) sampling.presence_penalty = one_of({0, 0.5, 2, -2, 3});
    if (often()) sampling.frequency_penalty = one_of({0, 0.3, 2, -2, NAN});
    if (often()) sampling.seed = random_();
    if (often()) {
      for (const int32_t id : ids(0, 10)) sampling.logit_bias[id] = one_of({1, -3, 100, -100, 50});
    }
    if (rarely()) sampling.allowed_token_ids = ids(0, 30);
    if (rarely()) sampling.banned_token_ids = ids(0, 30);
    if (rarely()) sampling.bad_words = {"a", " the", "some words of it"};
    request.max_tokens = 1 + static_cast<int32_t>(random_() % 10);
    if (often()) request.min_tokens = static_cast<int32_t>(random_() % 12);
    if (often()) request.stop_token_ids = ids(0, 5);
    if (rarely()) request.stop = {"e", "th"};
    request.ignore_eos = often();
    if (often()) request.logprobs = static_cast<int32_t>(random_() % 22);
    request.speculate = !rarely();
    if (rarely()) request.prompt_logprobs = static_cast<int32_t>(random_() % 22);
    return request;
  }

 private:
  bool often() { return random_() % 3 == 0; }
  bool rarely() { return random_() % 8 == 0; }
  double one_of(std::initializer_list<double> values) {
    // What is out of range stands last.
    const size_t count = values.size() - (random_() % 10 == 0 ? 0 : 1);
    return values.begin()[random_() % count];
  }
  std::vector<int32_t> ids(size_t least, size_t most) {
    std::vector<int32_t> out(least + random_() % (most - least + 1));
    for (int32_t& id : out) {
      id = static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab_));
      if (id == image_id_) id = 0;
    }
    if (random_() % 100 == 0 && least == 0) out.push_back(vocab_);  // no id
    return out;
  }

  std::mt19937& random_;
  const int32_t vocab_;
  const int32_t image_id_;
};

// What the plain twin makes of each position of a sequence.
struct Expected {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logprobs;  // of the whole vocabulary
  bool has_none = false;                     // no token is left at the end
};

class Oracle {
 public:
  explicit Oracle(const LoadedModel& model) : model_(model) {
    const KvShape shape = model.model().state_shape();
    engine::EngineLimits limits = {.max_num_seqs = 6, .max_step_rows = 60, .image_interval = 128};
    limits.image_budget_bytes = 3 * shape.image_unit_bytes();
    limits.kv_budget_bytes = 12 * shape.slot_bytes() + limits.image_budget_bytes +
                             9 * (shape.block_bytes() + kIndexBytesPerBlock);
    limits.check_integrity = true;
    limits.drafts = engine::DraftOptions{.is_adaptive = false};
    limits.observe = [this](const engine::Sequence& sequence, std::span<const float> logits) {
      observe(sequence, logits);
    };
    auto stepper = engine::Stepper::create(model.model(), 2, limits);
    if (!stepper) ADD_FAILURE() << stepper.error().message;
    stepper_ = *std::move(stepper);
  }

  // Queues a request; false: it was refused, by name.
  bool submit(Request request) {
    auto tokens_of = resolve_request(request, model_, false);
    auto prompt = encode_prompt(request, model_);
    if (tokens_of && prompt) {
      const auto lengths = resolve_lengths(request, *prompt, model_.info(), *tokens_of);
      if (lengths) {
        tokens_of->prompt = prompt->ids;
        tokens_of->seed = request.sampling.seed.value_or(7);
        return enqueue(*std::move(tokens_of));
      }
      tokens_of = lengths.error();
    }
    const Error& error = tokens_of ? prompt.error() : tokens_of.error();
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << error.message;
    EXPECT_FALSE(error.field.empty()) << error.message;
    EXPECT_EQ(error.message.rfind(error.field, 0), 0U) << error.message;
    return false;
  }

  void step(std::mt19937& random) {
    if (random() % 20 == 0 && !scheduler().running().empty())
      scheduler().preempt(*scheduler().running()[random() % scheduler().running().size()]);
    stepper_->step();
  }

  bool is_busy() { return !scheduler().running().empty() || scheduler().num_waiting() > 0; }

  // Compares what has ended, and forgets it.
  void check() {
    for (auto at = streams_.begin(); at != streams_.end();) {
      const engine::TokenProgress progress = at->second->take();
      Found& found = found_[at->first];
      found.tokens.insert(found.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      found.logprobs.insert(found.logprobs.end(), progress.logprobs.begin(),
                            progress.logprobs.end());
      if (!progress.end) {
        ++at;
        continue;
      }
      const Expected& expected = expected_[at->first];
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_EQ(*progress.end == engine::End::kError, expected.has_none);
      if (progress.error) {
        EXPECT_EQ(progress.error->code, ErrorCode::kInvalidArgument);
      }
      check_logprobs(found, expected);
      num_tokens += static_cast<int64_t>(found.tokens.size());
      num_without_a_token += expected.has_none ? 1 : 0;
      expected_.erase(at->first);
      found_.erase(at->first);
      at = streams_.erase(at);
    }
  }

  int64_t num_preemptions() const { return stepper_->metrics().total_preemptions.get(); }
  int64_t num_tokens = 0;
  int64_t num_without_a_token = 0;

 private:
  struct Found {
    std::vector<int32_t> tokens;
    std::vector<PositionLogprobs> logprobs;
  };

  engine::Scheduler& scheduler() { return stepper_->scheduler(); }

  bool enqueue(engine::TokenRequest request) {
    const int64_t arrival = next_++;
    streams_[arrival] = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
    auto sequence = stepper_->sequence_of(std::move(request), streams_[arrival]);
    if (!sequence) {
      ADD_FAILURE() << sequence.error().message;
      return false;
    }
    (*sequence)->key.arrival = arrival;
    scheduler().enqueue(*std::move(sequence));
    return true;
  }

  void observe(const engine::Sequence& sequence, std::span<const float> logits) {
    Expected& expected = expected_[sequence.key.arrival];
    const std::span<const int32_t> tokens(sequence.tokens);
    const auto num_prompt = static_cast<size_t>(sequence.num_prompt);
    const sampling::Params& params = sequence.sampler->params();
    const auto x = sampling::plain::shaped(logits, params, tokens.first(num_prompt),
                                           tokens.subspan(num_prompt));
    expected.has_none = *std::max_element(x.begin(), x.end()) == -INFINITY;
    if (expected.has_none) return;
    expected.tokens.push_back(
        sampling::plain::sample(x, {sequence.sampler->seed(), tokens.size()}, params));
    expected.logprobs.emplace_back(logits.begin(), logits.end());
    sampling::plain::logprobs(expected.logprobs.back());
  }

  static void check_logprobs(const Found& found, const Expected& expected) {
    for (size_t i = 0; i < found.logprobs.size(); ++i) {
      const std::vector<float>& all = expected.logprobs[i];
      const PositionLogprobs& told = found.logprobs[i];
      EXPECT_EQ(told.logprob, all[static_cast<size_t>(found.tokens[i])]);
      EXPECT_GE(told.rank, 1 + std::count_if(all.begin(), all.end(),
                                             [&](float other) { return other > told.logprob; }));
      for (const TokenLogprob& top : told.top)
        EXPECT_EQ(top.logprob, all[static_cast<size_t>(top.id)]);
    }
  }

  const LoadedModel& model_;
  std::unique_ptr<engine::Stepper> stepper_;
  std::map<int64_t, std::shared_ptr<engine::TokenStream>> streams_;
  std::map<int64_t, Expected> expected_;
  std::map<int64_t, Found> found_;
  int64_t next_ = 0;
};

TEST(RandomRequests, EachTokenIsThatOfThePlainTwin) {
  const uint32_t seed = first_seed();
  SCOPED_TRACE("STOKER_DRIVER_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  auto model = LoadedModel::load(kSmallCheckpoint, {});
  ASSERT_TRUE(model) << model.error().message;
  Oracle oracle(**model);
  RandomRequest requests(random, (*model)->checkpoint().config());
  int64_t num_refused = 0;
  for (int64_t i = 0; i < num_requests() && !HasFailure(); ++i) {
    num_refused += oracle.submit(requests.draw()) ? 0 : 1;
    if (i % 8 == 7) {
      for (int step = 0; step < 8; ++step) oracle.step(random);
      oracle.check();
    }
  }
  while (oracle.is_busy()) oracle.step(random);
  oracle.check();
  std::printf(
      "seed %u: %lld requests, %lld refused, %lld tokens, %lld without one in the end, "
      "%lld preemptions\n",
      seed, static_cast<long long>(num_requests()), static_cast<long long>(num_refused),
      static_cast<long long>(oracle.num_tokens), static_cast<long long>(oracle.num_without_a_token),
      static_cast<long long>(oracle.num_preemptions()));
}

// Values that a field may be given, good ones and others.
struct FieldValues {
  const char* name;
  std::vector<const char*> values;
};

const std::vector<FieldValues>& fields() {
  static const std::vector<FieldValues> all = {
      {"max_tokens", {"1", "3", "8", "0", "\"3\"", "2147483647"}},
      {"temperature", {"0", "0.7", "1.5", "30", "-1", "null", "\"hot\""}},
      {"top_p", {"1", "0.9", "0.001", "0", "2"}},
      {"top_k", {"0", "-1", "1", "40", "-3", "1.5"}},
      {"min_p", {"0", "0.2", "1", "1.5", "[]"}},
      {"presence_penalty", {"0", "1.5", "-2", "2.5"}},
      {"frequency_penalty", {"0", "0.5", "-2", "\"x\""}},
      {"repetition_penalty", {"1", "1.3", "0.1", "0", "-1"}},
      {"logit_bias", {"{}", R"({"5":3})", R"({"5":-100,"700":100})", R"({"704":1})", "[1]"}},
      {"allowed_token_ids", {"[5,6,7]", "[1]", "[]", "[9999]", "null"}},
      {"banned_token_ids", {"[5]", "[]", "[-1]"}},
      {"bad_words", {"[\"a\"]", "[\" \",\"of it\"]", "[\"\"]", "[5]"}},
      {"seed", {"1", "-7", "9223372036854775807", "1.5"}},
      {"stop", {"\"e\"", "[\"a\",\"b\"]", "[]", "5"}},
      {"stop_token_ids", {"[1,2]", "[30]", "[704]", "\"1\""}},
      {"include_stop_str_in_output", {"true", "false", "1"}},
      {"min_tokens", {"0", "2", "5", "100", "-1"}},
      {"ignore_eos", {"true", "false", "0"}},
      {"n", {"1", "2", "4", "0", "1000"}},
      {"best_of", {"1", "3", "4", "0"}},
      {"logprobs", {"0", "1", "5", "20", "21", "true"}},
      {"prompt_logprobs", {"0", "3", "21", "null"}},
      {"echo", {"true", "false"}},
      {"stream", {"false"}},
  };
  return all;
}

std::string random_body(std::mt19937& random) {
  const char* prompts[] = {R"("some words")", R"(["a","b c"])", "[5,6,7]", "[[9],[10,11]]",
                           R"("")",           "[704]",          "5"};
  std::string body = std::string("{\"prompt\":") + prompts[random() % (random() % 9 == 0 ? 7 : 5)];
  for (const FieldValues& field : fields()) {
    if (random() % 5 != 0) continue;
    // Most often one of the first two, which are good.
    const size_t count = random() % 6 == 0 ? field.values.size() : 1;
    body += std::string(",\"") + field.name + "\":" + field.values[random() % count];
  }
  return body + "}";
}

// A body on its way through the engine.
struct Running {
  std::string body;
  ParsedRequest parsed;
  std::unique_ptr<stoker::Answer> answer;
};

void expect_refusal(const Error& error, const std::string& body) {
  EXPECT_EQ(to_http_error(error).status, 400) << error.message << "\n" << body;
  EXPECT_FALSE(error.field.empty()) << error.message << "\n" << body;
}

std::optional<Running> submit(Engine& engine, const std::string& body) {
  auto parsed = parse_request(Route::kCompletions, body, {"small"});
  if (!parsed) {
    expect_refusal(parsed.error(), body);
    return std::nullopt;
  }
  Running running{body, *std::move(parsed), {}};
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Request& request : running.parsed.requests) {
    auto stream = engine.submit(request);
    if (!stream) {
      expect_refusal(stream.error(), body);
      return std::nullopt;
    }
    streams.push_back(*std::move(stream));
  }
  running.answer =
      std::make_unique<OpenAiAnswer>(running.parsed.form, "r", std::move(streams), engine);
  return running;
}

// The choices of an answer, checked; empty: it failed as it may.
std::string choices_of(Running& running) {
  SCOPED_TRACE(running.body);
  if (const auto& error = running.answer->error()) {
    EXPECT_EQ(error->status, 400) << error->message;
    return "";
  }
  const std::string text = running.answer->body();
  const auto json = Json::parse(text);
  if (!json) {
    ADD_FAILURE() << "no JSON: " << text;
    return "";
  }
  const auto& choices = json->find("choices")->items();
  EXPECT_EQ(choices.size(),
            running.parsed.requests.size() * static_cast<size_t>(running.parsed.form.num_choices));
  for (const Json& choice : choices) {
    const std::string& reason = choice.find("finish_reason")->as_string();
    EXPECT_TRUE(reason == "stop" || reason == "length") << reason;
    const Json& logprobs = *choice.find("logprobs");
    EXPECT_EQ(logprobs.is_null(), !running.parsed.form.logprobs);
    if (logprobs.is_null()) continue;
    const size_t count = logprobs.find("tokens")->items().size();
    EXPECT_EQ(logprobs.find("token_logprobs")->items().size(), count);
    EXPECT_EQ(logprobs.find("text_offset")->items().size(), count);
  }
  return json->find("choices")->dump();
}

// Runs them all at once, reading by turns.
std::map<std::string, std::string> run(Engine& engine, const std::vector<std::string>& bodies) {
  std::vector<Running> running;
  for (const std::string& body : bodies) {
    if (auto one = submit(engine, body)) running.push_back(*std::move(one));
  }
  std::map<std::string, std::string> out;
  std::string no_events;
  for (Running& one : running) {
    while (!one.answer->finished()) {
      for (Running& each : running) each.answer->poll(no_events, SIZE_MAX);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    out[one.body] = choices_of(one);
  }
  return out;
}

TEST(RandomRequests, BodiesAreAnsweredOrRefusedAndTheSameInOtherCompany) {
  const uint32_t seed = first_seed();
  SCOPED_TRACE("STOKER_DRIVER_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  auto engine = Engine::open(kSmallCheckpoint,
                             {.num_threads = 2, .max_num_seqs = 64, .log = {}, .progress = {}});
  ASSERT_TRUE(engine) << engine.error().message;
  std::map<std::string, std::string> known;
  std::vector<std::string> earlier;
  int64_t num_answered = 0;
  for (int64_t i = 0; i < num_requests() && !HasFailure(); i += 40) {
    std::vector<std::string> bodies;
    for (int k = 0; k < 40; ++k) bodies.push_back(random_body(random));
    for (int k = 0; k < 8 && !earlier.empty(); ++k)
      bodies.push_back(earlier[random() % earlier.size()]);
    std::shuffle(bodies.begin(), bodies.end(), random);
    for (const auto& [body, choices] : run(**engine, bodies)) {
      ++num_answered;
      if (body.find("\"seed\":") == std::string::npos) continue;
      const auto [at, is_new] = known.emplace(body, choices);
      EXPECT_EQ(at->second, choices) << body;
      if (is_new) earlier.push_back(body);
    }
  }
  EXPECT_TRUE((*engine)->healthy());
  std::printf("seed %u: %lld bodies, %lld answers, %zu of them with a seed\n", seed,
              static_cast<long long>(num_requests()), static_cast<long long>(num_answered),
              known.size());
}

}  // namespace
}  // namespace stoker::testing
