// How much more is done in a step that more sequences share. One step at a time, so that no step of
// another kind is among those that are timed.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/try.h"
#include "bench/bench.h"
#include "engine/stepper.h"
#include "support/watched_kernels.h"

namespace stoker::bench {
namespace {

// More than the window, and more entries than are chosen: from here on a row costs the same. The
// head is the same in all prompts, so that they get there soon.
constexpr int64_t kHeadTokens = 128;
constexpr int64_t kPromptTokens = 160;

// A stepper with sequences that are behind their prompts.
class Decoding {
 public:
  static Result<std::unique_ptr<Decoding>> start(const LoadedModel& model, int num_threads,
                                                 int64_t count) {
    const EngineOptions defaults;
    const engine::EngineLimits limits{.max_num_seqs = defaults.max_num_seqs,
                                      .kv_budget_bytes = int64_t{1} << 30,
                                      .max_step_rows = defaults.max_num_batched_tokens,
                                      .kernel_plan = testing::watched_plan()};
    TRY_ASSIGN(auto stepper, engine::Stepper::create(model.model(), num_threads, limits));
    auto out = std::make_unique<Decoding>(std::move(stepper));
    for (int64_t i = 0; i < count; ++i) {
      engine::TokenRequest request;
      request.prompt = joined(random_ids(1000, kHeadTokens),
                              random_ids(static_cast<uint32_t>(i), kPromptTokens - kHeadTokens));
      request.seed = static_cast<uint64_t>(i);
      request.max_tokens = 4096;
      auto stream = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
      TRY_ASSIGN(auto sequence, out->stepper_->sequence_of(std::move(request), std::move(stream)));
      sequence->key.arrival = i;
      out->stepper_->scheduler().enqueue(std::move(sequence));
    }
    while (!out->all_decode(count)) out->stepper_->step();
    return out;
  }

  explicit Decoding(std::unique_ptr<engine::Stepper> stepper) : stepper_(std::move(stepper)) {}
  ~Decoding() { keep(0); }
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  // Ends all sequences but `count`.
  void keep(int64_t count) {
    engine::Scheduler& scheduler = stepper_->scheduler();
    while (static_cast<int64_t>(scheduler.running().size()) > count)
      scheduler.end(scheduler.running().back()->key, engine::End::kCancelled, std::nullopt);
  }

  double seconds_of(int64_t num_steps) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < num_steps; ++i) stepper_->step();
    return seconds_since(begin);
  }

 private:
  bool all_decode(int64_t count) {
    const auto& running = stepper_->scheduler().running();
    return static_cast<int64_t>(running.size()) == count &&
           std::ranges::all_of(running,
                               [](const auto& sequence) { return sequence->num_chosen() >= 2; });
  }

  std::unique_ptr<engine::Stepper> stepper_;
};

// Of one step.
Json weight_visits(Decoding& decoding) {
  testing::watch_reads(true);
  decoding.seconds_of(1);
  testing::watch_reads(false);
  const testing::Reads counts = testing::take_reads();
  int64_t visits = 0;
  int64_t most = 0;
  for (const auto& [weight, count] : counts) {
    visits += count;
    most = std::max(most, count);
  }
  return Json::object({{"visits", Json::integer(visits)},
                       {"panels", Json::integer(static_cast<int64_t>(counts.size()))},
                       {"most_of_one", Json::integer(most)}});
}

}  // namespace

Result<Json> throughput(const Setup& setup) {
  TRY_ASSIGN(const std::shared_ptr<const LoadedModel> model,
             LoadedModel::load(setup.model,
                               {.num_threads = setup.num_threads, .weights = {.pack = false}}));
  const std::vector<int64_t> counts = {1, 2, 4, 8, 16, 32, 64};
  const int num_rounds = setup.quick ? 1 : 4;
  const int64_t num_steps = setup.quick ? 2 : 24;
  // Rounds over all counts, so that what disturbs the machine for a while hits them all.
  std::vector<std::vector<double>> rates(counts.size());
  std::vector<Json> visits(counts.size());
  for (int round = 0; round < num_rounds; ++round) {
    TRY_ASSIGN(const auto decoding, Decoding::start(*model, setup.num_threads, counts.back()));
    for (size_t i = counts.size(); i-- > 0;) {
      decoding->keep(counts[i]);
      decoding->seconds_of(1);
      rates[i].push_back(static_cast<double>(counts[i] * num_steps) /
                         decoding->seconds_of(num_steps));
      if (round == 0) visits[i] = weight_visits(*decoding);
    }
  }
  std::vector<Json> tokens_per_s;
  double least_growth = 0;  // of the rate, from one count to the next
  for (size_t i = 0; i < counts.size(); ++i) {
    const double rate = median(rates[i]);
    tokens_per_s.push_back(spread(rates[i]));
    const double growth = i == 0 ? 0 : rate / median(rates[i - 1]);
    if (i == 1 || (i > 1 && growth < least_growth)) least_growth = growth;
    std::array<char, 100> line{};
    std::snprintf(line.data(), line.size(), "  %3d sequences %8.1f tokens/s, %s",
                  static_cast<int>(counts[i]), rate, visits[i].dump().c_str());
    say(line.data());
  }
  return Json::object({{"sequences", integers(counts)},
                       {"prompt_tokens", Json::integer(kPromptTokens)},
                       {"tokens_per_s", Json::array(std::move(tokens_per_s))},
                       {"weights_a_step", Json::array(std::move(visits))},
                       {"least_growth", number(least_growth)},
                       {"growth", number(median(rates.back()) / median(rates.front()))}});
}

}  // namespace stoker::bench
