// What drafts bring: tokens a second of requests without drafts, with a fixed number of them in
// every step, and with as many as the engine chooses, which is held against the best of the others.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/try.h"
#include "bench/bench.h"
#include "engine/stepper.h"
#include "support/questions.h"

namespace stoker::bench {
namespace {

using engine::DraftOptions;

// Requests that are served `batch` at a time, with these fixed numbers of drafts among others.
struct Load {
  int32_t batch = 1;
  std::vector<int32_t> fixed;
  int num_rounds = 1;
  std::vector<engine::TokenRequest> requests;
};

// How a draft of a position comes about instead of the model's; null: it is the model's.
using Alter = std::function<void(const engine::Sequence&, std::span<int32_t>)>;

constexpr int32_t kAdaptive = -1;

// An engine that serves in one way: without drafts, with so many in every step, or kAdaptive.
class Server {
 public:
  static Result<std::unique_ptr<Server>> start(const LoadedModel& model, const Setup& setup,
                                               int32_t batch, int32_t num_drafts,
                                               const Alter& alter) {
    engine::EngineLimits limits{
        .max_num_seqs = batch, .kv_budget_bytes = int64_t{1} << 30, .prefix_cache = false};
    if (num_drafts != 0) {
      limits.drafts = DraftOptions{.num_drafts = std::max(num_drafts, 0),
                                   .is_adaptive = num_drafts == kAdaptive,
                                   .alter = alter};
    }
    TRY_ASSIGN(auto stepper, engine::Stepper::create(model.model(), setup.num_threads, limits));
    return std::make_unique<Server>(std::move(stepper));
  }

  explicit Server(std::unique_ptr<engine::Stepper> stepper) : stepper_(std::move(stepper)) {}

  // Tokens a second; what was chosen, if `answers` is given.
  Result<double> serve(const Load& load, std::vector<Ids>* answers) {
    std::vector<std::shared_ptr<engine::TokenStream>> streams;
    for (const engine::TokenRequest& request : load.requests) {
      streams.push_back(std::make_shared<engine::TokenStream>(nullptr, std::function<void()>()));
      TRY_ASSIGN(auto sequence, stepper_->sequence_of(request, streams.back()));
      sequence->key.arrival = static_cast<int64_t>(streams.size()) - 1;
      stepper_->scheduler().enqueue(std::move(sequence));
    }
    engine::Scheduler& scheduler = stepper_->scheduler();
    const Clock::time_point begin = Clock::now();
    while (!scheduler.running().empty() || scheduler.num_waiting() > 0) stepper_->step();
    const double seconds = seconds_since(begin);
    int64_t num_tokens = 0;
    for (const auto& stream : streams) {
      const engine::TokenProgress progress = stream->take();
      if (progress.error) return *progress.error;
      num_tokens += static_cast<int64_t>(progress.tokens.size());
      if (answers != nullptr) answers->push_back(progress.tokens);
    }
    return static_cast<double>(num_tokens) / seconds;
  }

  EngineStats stats() const { return stepper_->metrics().read(); }

 private:
  std::unique_ptr<engine::Stepper> stepper_;
};

// Tokens a second of each way to serve a load, by rounds over all ways.
struct Rates {
  std::vector<double> plain;
  std::vector<std::vector<double>> fixed;  // of each of the load's numbers
  std::vector<double> adaptive;
  EngineStats stats;            // of the adaptive one
  double tokens_per_round = 0;  // where all are verified
};

// How many tokens a round with all drafts gives.
double tokens_per_round(const EngineStats& stats) {
  const auto rounds = static_cast<double>(std::max<int64_t>(1, stats.total_draft_rounds));
  return 1 + static_cast<double>(stats.total_accepted_tokens) / rounds;
}

Result<Rates> rates_of(const LoadedModel& model, const Setup& setup, const Load& load,
                       const Alter& alter) {
  std::vector<int32_t> ways = {kAdaptive, 0};
  ways.insert(ways.end(), load.fixed.begin(), load.fixed.end());
  std::vector<std::unique_ptr<Server>> servers;
  for (const int32_t num_drafts : ways) {
    TRY_ASSIGN(auto server, Server::start(model, setup, load.batch, num_drafts, alter));
    servers.push_back(std::move(server));
  }
  Rates rates;
  rates.fixed.resize(load.fixed.size());
  for (int round = -1; round < load.num_rounds; ++round) {  // the first is to warm up
    for (size_t i = 0; i < servers.size(); ++i) {
      TRY_ASSIGN(const double rate, servers[i]->serve(load, nullptr));
      if (round < 0) continue;
      (i == 0 ? rates.adaptive : i == 1 ? rates.plain : rates.fixed[i - 2]).push_back(rate);
    }
  }
  rates.stats = servers[0]->stats();
  rates.tokens_per_round = tokens_per_round(servers.back()->stats());
  return rates;
}

// The median of what rounds that followed each other say.
double ratio(const std::vector<double>& rates, const std::vector<double>& to) {
  std::vector<double> ratios;
  for (size_t i = 0; i < rates.size(); ++i) ratios.push_back(rates[i] / to[i]);
  return median(std::move(ratios));
}

Json figures_of(const std::string& name, const Load& load, const Rates& rates) {
  const std::vector<double>* best = &rates.plain;
  std::vector<Json> fixed;
  for (const std::vector<double>& values : rates.fixed) {
    if (ratio(values, *best) > 1) best = &values;
    fixed.push_back(spread(values));
  }
  const double gain = ratio(rates.adaptive, rates.plain);
  const double of_best = ratio(rates.adaptive, *best);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "  %s, %2d at once: %8.1f tokens/s without, %.3f times with, %.3f of the best; "
                "%.2f a round",
                name.c_str(), static_cast<int>(load.batch), median(rates.plain), gain, of_best,
                rates.tokens_per_round);
  say(line.data());
  const EngineStats& stats = rates.stats;
  return Json::object(
      {{"load", Json::string(name)},
       {"batch", Json::integer(load.batch)},
       {"plain", spread(rates.plain)},
       {"fixed_drafts", integers({load.fixed.begin(), load.fixed.end()})},
       {"fixed", Json::array(std::move(fixed))},
       {"adaptive", spread(rates.adaptive)},
       {"gain", number(gain)},
       {"of_best", number(of_best)},
       {"tokens_per_round", number(rates.tokens_per_round)},
       {"drafted", Json::integer(stats.total_drafted_tokens)},
       {"verified", Json::integer(stats.total_verified_tokens)},
       {"accepted", Json::integer(stats.total_accepted_tokens)},
       {"tokens", Json::integer(stats.total_tokens)},
       {"switched_off_predicted", Json::integer(stats.total_switched_off_predicted)},
       {"switched_off_measured", Json::integer(stats.total_switched_off_measured)}});
}

// Questions to the demo model, four for each place, greedy or sampled, to their end.
Load questions_load(const LoadedModel& model, const Setup& setup, int32_t batch,
                    double temperature) {
  Load load{
      .batch = batch, .fixed = {1, 2, 3, 4, 5}, .num_rounds = setup.quick ? 1 : 7, .requests = {}};
  const int32_t count = std::max(16, 4 * batch);
  for (auto& prompt : testing::questions(model, count)) {
    engine::TokenRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = temperature;
    request.seed = load.requests.size();
    request.max_tokens = 96;
    request.stop_ids = {model.checkpoint().config().eos_token_id};
    load.requests.push_back(std::move(request));
  }
  return load;
}

// Random prompts for a model of random weights, greedy.
Load random_load(int32_t batch) {
  const int32_t num_tokens = batch == 1 ? 64 : std::max(6, 256 / batch);
  Load load{.batch = batch, .fixed = {2, 5}, .num_rounds = 3, .requests = {}};
  for (int32_t i = 0; i < batch; ++i) {
    engine::TokenRequest request;
    request.prompt = random_ids(static_cast<uint32_t>(i), 2);
    request.sampling.temperature = 0;
    request.max_tokens = num_tokens;
    load.requests.push_back(std::move(request));
  }
  return load;
}

// The share of drafts that are right, if all before them in the round are.
constexpr uint32_t kRightPercent = 80;

// Drafts as those of a trained head: right by chance, where the answers are known.
Alter mostly_right(const std::vector<Ids>& answers) {
  return [&answers](const engine::Sequence& sequence, std::span<int32_t> drafts) {
    const Ids& answer = answers[static_cast<size_t>(sequence.key.arrival)];
    for (size_t place = 0; place < drafts.size(); ++place) {
      const size_t at = static_cast<size_t>(sequence.num_chosen()) + place;
      const auto dice =
          static_cast<uint32_t>(sequence.key.arrival * 7919 + static_cast<int64_t>(at) * 104729 +
                                static_cast<int64_t>(place) * 1299709);
      const bool is_right = (dice * 2654435761U >> 8) % 100 < kRightPercent;
      if (at < answer.size()) drafts[place] = is_right ? answer[at] : answer[at] + 1;
    }
  };
}

std::vector<int32_t> batches_of(const Setup& setup) {
  return setup.quick ? std::vector<int32_t>{1, 4} : std::vector<int32_t>{1, 4, 16, 64};
}

Result<void> measure_demo(const Setup& setup, Json& out) {
  TRY_ASSIGN(
      const std::shared_ptr<const LoadedModel> model,
      LoadedModel::load("demo", {.num_threads = setup.num_threads, .weights = {.pack = false}}));
  for (const double temperature : {0.0, 1.0}) {
    const std::string name = temperature == 0 ? "demo, greedy" : "demo, temperature 1";
    for (const int32_t batch : batches_of(setup)) {
      const Load load = questions_load(*model, setup, batch, temperature);
      TRY_ASSIGN(const Rates rates, rates_of(*model, setup, load, {}));
      out.push(figures_of(name, load, rates));
    }
  }
  return {};
}

Result<void> measure_slice(const Setup& setup, Json& out) {
  TRY_ASSIGN(const std::shared_ptr<const LoadedModel> model,
             LoadedModel::load(setup.slice,
                               {.num_threads = setup.num_threads, .weights = {.pack = false}}));
  for (const int32_t batch : batches_of(setup)) {
    const Load load = random_load(batch);
    std::vector<Ids> answers;
    TRY_ASSIGN(const auto plain, Server::start(*model, setup, batch, 0, {}));
    if (auto served = plain->serve(load, &answers); !served) return std::move(served).error();
    TRY_ASSIGN(const Rates right, rates_of(*model, setup, load, mostly_right(answers)));
    out.push(figures_of("slice, 80 % right", load, right));
    TRY_ASSIGN(const Rates random, rates_of(*model, setup, load, {}));
    out.push(figures_of("slice, random head", load, random));
  }
  return {};
}

}  // namespace

Result<Json> drafts(const Setup& setup) {
  Json loads = Json::array();
  if (auto measured = measure_demo(setup, loads); !measured) return std::move(measured).error();
  if (!setup.slice.empty() && !setup.quick) {
    if (auto measured = measure_slice(setup, loads); !measured) return std::move(measured).error();
  }
  return Json::object({{"loads", std::move(loads)}});
}

}  // namespace stoker::bench
