// The time of one token by the length of the context before it.
//
// A prompt of 256k tokens would take the plain kernels an hour, since each of its rows scores the
// index keys of all rows before it. So the state of a long context is made: random records in the
// formats and places that the model writes. A step reads as many of them whatever they hold. That
// this gives the time of a real prompt is shown where both are measured.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "bench/bench.h"
#include "bench/made_records.h"
#include "support/watched_kernels.h"

namespace stoker::bench {
namespace {

// A sequence whose state was made, and the model that goes on from it.
class MadeContext {
 public:
  static Result<std::unique_ptr<MadeContext>> create(const Model& model, int num_threads,
                                                     int64_t max_tokens) {
    const KvShape shape = model.state_shape();
    const int64_t bytes =
        2 * shape.slot_bytes() + (blocks_for(max_tokens) + 1) * shape.block_bytes();
    TRY_ASSIGN(const KvPlan plan, plan_kv(shape, {.bytes = bytes, .max_num_seqs = 1}));
    TRY_ASSIGN(auto store, KvStore::create(shape, plan));
    return std::make_unique<MadeContext>(model, num_threads, std::move(store), max_tokens);
  }

  MadeContext(const Model& model, int num_threads, std::unique_ptr<KvStore> store,
              int64_t max_tokens)
      : model_(model),
        pool_(num_threads),
        work_(model.config(), pool_, testing::watched_plan(), 1),
        store_(std::move(store)),
        state_(*SequenceState::create(*store_, blocks_for(max_tokens))),
        logits_(static_cast<size_t>(model.config().vocab_size)) {}

  const KvShape& shape() const { return store_->shape(); }
  const SequenceState& state() const { return state_; }

  void grow(int64_t tokens) { make_context(state_, shape(), tokens); }

  double seconds_of_token() {
    const int32_t id = random_ids(static_cast<uint32_t>(state_.length()), 1)[0];
    CHECK(state_.reserve(state_.length() + 1), "the store was made for it");
    const Segment segment{&state_, {&id, 1}};
    const int64_t wanted = 0;
    const Clock::time_point begin = Clock::now();
    model_.forward(work_, {&segment, 1}, {&wanted, 1}, logits_.data(), nullptr);
    return seconds_since(begin);
  }

 private:
  const Model& model_;
  WorkerPool pool_;
  Workspace work_;
  std::unique_ptr<KvStore> store_;
  SequenceState state_;
  std::vector<float> logits_;
};

std::vector<int64_t> lengths_to(int64_t longest) {
  std::vector<int64_t> lengths;
  for (int64_t tokens = 1024; tokens <= longest; tokens *= 2) lengths.push_back(tokens);
  return lengths;
}

// Seconds a token of the made contexts, and of the index work beside them.
Result<std::vector<Json>> made_contexts(const Model& model, const Setup& setup) {
  const std::vector<int64_t> lengths = lengths_to(setup.quick ? 16384 : 262144);
  const int num_tokens = setup.quick ? 5 : 30;
  TRY_ASSIGN(const auto context,
             MadeContext::create(model, setup.num_threads, lengths.back() + num_tokens + 1));
  std::vector<Json> out;
  for (const int64_t tokens : lengths) {
    context->grow(tokens);
    context->seconds_of_token();  // the first one finds nothing in the processor's caches
    std::vector<double> token_s;
    std::vector<double> scoring_s;
    std::vector<double> choice_s;
    testing::take_index_seconds();
    testing::take_choice_seconds();
    for (int i = 0; i < num_tokens; ++i) {
      token_s.push_back(context->seconds_of_token());
      scoring_s.push_back(testing::take_index_seconds() / setup.num_threads);
      choice_s.push_back(testing::take_choice_seconds());  // one row: on one thread
    }
    const double rest_s = median(token_s) - median(scoring_s) - median(choice_s);
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(),
                  "  %6lld tokens before: %7.2f ms, of it index scoring %7.2f, rest %6.2f",
                  static_cast<long long>(tokens), median(token_s) * 1e3, median(scoring_s) * 1e3,
                  rest_s * 1e3);
    say(line.data());
    out.push_back(Json::object({{"context_tokens", Json::integer(tokens)},
                                {"token_s", spread(token_s)},
                                {"index_scoring_s", spread(scoring_s)},
                                {"index_choice_s", spread(choice_s)},
                                {"rest_s", number(rest_s)}}));
  }
  return out;
}

// Seconds between the tokens of one answer, as they come.
Result<std::vector<double>> seconds_between_tokens(Engine& engine, Ids prompt, int32_t max_tokens) {
  Request request;
  request.prompt = TokenPrompt{std::move(prompt)};
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  TRY_ASSIGN(const std::unique_ptr<Stream> stream, engine.submit(std::move(request)));
  std::vector<double> seconds;
  std::optional<Clock::time_point> last;
  while (true) {
    const auto event = stream->wait(std::chrono::seconds(1));
    if (!event) continue;
    const Clock::time_point now = Clock::now();
    const auto count = static_cast<double>(event->ids.size());
    if (last && count > 0)
      seconds.push_back(std::chrono::duration<double>(now - *last).count() / count);
    if (count > 0) last = now;
    if (!event->finish) continue;
    if (event->finish->error) return *event->finish->error;
    return seconds;
  }
}

// The same from prompts that the engine ran, each served from the one before as far as it goes.
Result<std::vector<Json>> real_contexts(const Setup& setup) {
  TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::open(setup.model, options_for(setup)));
  const std::vector<int64_t> lengths = lengths_to(setup.quick ? 2048 : 16384);
  const Ids prompt = random_ids(11, lengths.back());
  std::vector<Json> out;
  for (const int64_t tokens : lengths) {
    // The model says end of text by chance; after another last token it says something else.
    std::vector<double> seconds;
    for (uint32_t seed = 0; seed < 20 && seconds.size() < 16; ++seed) {
      Ids cut(prompt.begin(), prompt.begin() + tokens);
      cut.back() = random_ids(seed, 1)[0];
      TRY_ASSIGN(seconds, seconds_between_tokens(*engine, std::move(cut), 33));
    }
    if (seconds.empty()) {
      return Error{ErrorCode::kInternal,
                   "expected an answer of some tokens behind " + std::to_string(tokens), ""};
    }
    std::array<char, 100> line{};
    std::snprintf(line.data(), line.size(), "  %6lld tokens of a prompt: %7.2f ms",
                  static_cast<long long>(tokens), median(seconds) * 1e3);
    say(line.data());
    out.push_back(
        Json::object({{"context_tokens", Json::integer(tokens)}, {"token_s", spread(seconds)}}));
  }
  return out;
}

}  // namespace

Result<Json> decode(const Setup& setup) {
  TRY_ASSIGN(const std::shared_ptr<const LoadedModel> model,
             LoadedModel::load(setup.model,
                               {.num_threads = setup.num_threads, .weights = {.pack = false}}));
  TRY_ASSIGN(std::vector<Json> made, made_contexts(model->model(), setup));
  TRY_ASSIGN(std::vector<Json> real, real_contexts(setup));
  return Json::object(
      {{"made", Json::array(std::move(made))}, {"prompts", Json::array(std::move(real))}});
}

}  // namespace stoker::bench
