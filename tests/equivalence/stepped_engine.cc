#include "equivalence/stepped_engine.h"

#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "support/checkpoint.h"

namespace stoker::testing {
namespace {

uint64_t hash_of(std::span<const float> values) {
  uint64_t hash = 14695981039346656037U;
  for (const float value : values) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211U;
  return hash;
}

}  // namespace

Models::Models(const std::string& path) {
  for (const auto mode : {BoundedReplay::kOff, BoundedReplay::kExact, BoundedReplay::kCompact}) {
    auto loaded = LoadedModel::load(path, {.bounded_replay = mode});
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    loaded_.push_back(*std::move(loaded));
  }
}

const Models& Models::get(const std::string& name) {
  static const Models small(kSmallCheckpoint);
  static const Models demo(kDemoCheckpoint);
  return name == "small" ? small : demo;
}

std::vector<int32_t> random_ids(const Models& models, uint32_t seed, int64_t length) {
  std::vector<int32_t> ids;
  uint32_t x = seed * 2654435761U + 1;
  const auto usable = static_cast<uint32_t>(models.vocab_size() * 3 / 4);  // below special ids
  for (int64_t i = 0; i < length; ++i) {
    x = x * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>((x >> 8) % usable));
  }
  return ids;
}

engine::TokenRequest request_of(std::vector<int32_t> prompt, int32_t max_tokens, uint32_t seed) {
  engine::TokenRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.seed = seed;
  request.sampling.temperature = seed % 2 == 0 ? 0 : 1;
  request.sampling.top_p = 0.95;
  if (seed % 4 < 2) return request;
  request.sampling.top_k = 200;
  request.sampling.min_p = 0.001;
  request.sampling.penalties = {1.3F, 0.5F, 0.25F};
  request.sampling.bias = {{5, 2}, {9, -INFINITY}, {17, -1.5F}};
  request.sampling.bad_words = {{11}, {5, 6}, {12, 13, 14}};
  request.sampling.min_tokens = max_tokens / 2;
  request.sampling.ends = {1, 5};
  if (seed % 8 < 4) request.sampling.forced = {max_tokens / 3, 9, {9, 21}};
  request.logprobs = 3;
  return request;
}

SteppedEngine::SteppedEngine(const Models& models, const Options& options) {
  engine::EngineLimits limits = options.limits;
  limits.check_integrity = true;
  limits.observe = [this](const engine::Sequence& sequence, std::span<const float> logits) {
    entries_[static_cast<size_t>(sequence.key.arrival)].answer.logits.push_back(hash_of(logits));
  };
  auto stepper = engine::Stepper::create(models.model(options.replay), options.num_threads, limits);
  if (!stepper) ADD_FAILURE() << stepper.error().message;
  stepper_ = *std::move(stepper);
}

size_t SteppedEngine::submit(const engine::TokenRequest& request) {
  Entry entry;
  entry.key = {request.priority, static_cast<int64_t>(entries_.size())};
  entry.stream = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
  auto sequence = stepper_->sequence_of(request, entry.stream);
  if (!sequence) {
    ADD_FAILURE() << sequence.error().message;
    return 0;
  }
  (*sequence)->key = entry.key;
  scheduler().enqueue(*std::move(sequence));
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

void SteppedEngine::cancel(size_t number) {
  scheduler().end(entries_[number].key, engine::End::kCancelled, std::nullopt);
}

bool SteppedEngine::step() {
  if (is_done()) return false;
  stepper_->step();
  return true;
}

void SteppedEngine::run() {
  while (step()) {
  }
}

const engine::Sequence* SteppedEngine::sequence(size_t number) {
  for (const auto& sequence : scheduler().running()) {
    if (sequence->key == entries_[number].key) return sequence.get();
  }
  return nullptr;
}

const Answer& SteppedEngine::answer(size_t number) {
  Entry& entry = entries_[number];
  const engine::TokenProgress progress = entry.stream->take();
  entry.answer.ids.insert(entry.answer.ids.end(), progress.tokens.begin(), progress.tokens.end());
  entry.answer.logprobs.insert(entry.answer.logprobs.end(), progress.logprobs.begin(),
                               progress.logprobs.end());
  entry.answer.end = progress.end;
  entry.answer.cached_tokens = progress.cost.cached_tokens;
  return entry.answer;
}

const Answer& alone(const Models& models, const engine::TokenRequest& request, ReplayMode mode) {
  if (mode == ReplayMode::kExact) mode = ReplayMode::kOff;
  using Key = std::tuple<const Models*, ReplayMode, std::vector<int32_t>, uint64_t, int32_t>;
  static std::map<Key, Answer> known;
  const Key key{&models, mode, request.prompt, request.seed, request.max_tokens};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  SteppedEngine engine(models, {.num_threads = 1,
                                .replay = mode,
                                .limits = {.max_num_seqs = 1,
                                           .kv_budget_bytes = int64_t{8} << 20,
                                           .max_step_rows = 4096,
                                           .prefix_cache = false}});
  const size_t number = engine.submit(request);
  engine.run();
  return known.emplace(key, engine.answer(number)).first->second;
}

::testing::AssertionResult same(const Answer& actual, const Answer& expected) {
  for (size_t i = 0; i < std::max(actual.ids.size(), expected.ids.size()); ++i) {
    if (i >= actual.ids.size() || i >= expected.ids.size()) {
      return ::testing::AssertionFailure()
             << actual.ids.size() << " ids, expected " << expected.ids.size();
    }
    if (actual.logits[i] != expected.logits[i])
      return ::testing::AssertionFailure() << "other logits at token " << i;
    if (actual.ids[i] != expected.ids[i]) {
      return ::testing::AssertionFailure()
             << "token " << i << ": " << actual.ids[i] << ", expected " << expected.ids[i];
    }
  }
  if (actual.logprobs != expected.logprobs)
    return ::testing::AssertionFailure() << "other log-probabilities";
  if (actual.end != expected.end) return ::testing::AssertionFailure() << "another end";
  return ::testing::AssertionSuccess();
}

}  // namespace stoker::testing
