// Prompts: what the prefix cache and bounded replay save. Through the door, with its defaults.
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/try.h"
#include "bench/bench.h"
#include "model/replay.h"

namespace stoker::bench {
namespace {

struct Mode {
  const char* name;
  BoundedReplay asked;
  ReplayMode rows;
};

constexpr Mode kModes[] = {{"off", BoundedReplay::kOff, ReplayMode::kOff},
                           {"exact", BoundedReplay::kExact, ReplayMode::kExact},
                           {"compact", BoundedReplay::kCompact, ReplayMode::kCompact}};

struct Sizes {
  int64_t prompt = 32768;
  int64_t longer = 40960;
  int64_t fresh = 512;
};

Sizes sizes_for(const Setup& setup) {
  return setup.quick ? Sizes{4096, 5120, 512} : Sizes{};
}

double first_token_s(const Finish& finish) {
  return finish.timings.first_token.count();
}

Json figures_of(const Finish& finish) {
  return Json::object({{"first_token_s", number(first_token_s(finish))},
                       {"cached_tokens", Json::integer(finish.usage.cached_tokens)},
                       {"computed_tokens", Json::integer(finish.usage.computed_tokens)}});
}

std::string in_words(const std::string& what, const Finish& finish) {
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(), "  %-28s %8.2f s, %lld rows, %d cached", what.c_str(),
                first_token_s(finish), static_cast<long long>(finish.usage.computed_tokens),
                static_cast<int>(finish.usage.cached_tokens));
  return line.data();
}

// A warm request as a part of the cold one; also with the scoring of index keys taken off both,
// which the plain kernels do one entry after the other.
struct Ratio {
  const ModelConfig& config;
  double entry_s;  // of all workers
  const Finish& cold;
  int64_t late_from;

  double scoring_s(int64_t begin, int64_t end) const {
    return static_cast<double>(entries_scored(config, begin, end, late_from)) * entry_s;
  }

  Json of(const Finish& warm) const {
    const int64_t end = cold.usage.prompt_tokens;
    const double cold_scoring = scoring_s(0, end);
    const double warm_scoring = scoring_s(warm.usage.cached_tokens, end);
    Json out = figures_of(warm);
    out.set("ratio", number(first_token_s(warm) / first_token_s(cold)));
    out.set("index_share", number(warm_scoring / first_token_s(warm)));
    out.set("ratio_without_index",
            number((first_token_s(warm) - warm_scoring) / (first_token_s(cold) - cold_scoring)));
    return out;
  }
};

// A finished request whose last block boundary is where the fresh part begins.
Result<Finish> after_finished(Engine& engine, const Sizes& sizes) {
  const Ids head = random_ids(1000, sizes.prompt - sizes.fresh);
  TRY_ASSIGN(const Finish finished, ask(engine, head, 1));
  say(in_words("its head, alone", finished));
  return ask(engine, joined(head, random_ids(1001, sizes.fresh)), 1);
}

Result<Json> with_interval(const Setup& setup, const ModelConfig& config, double entry_s,
                           std::optional<int> interval) {
  const Sizes sizes = sizes_for(setup);
  EngineOptions options = options_for(setup);
  if (interval) options.image_interval = *interval;
  say("prefix: image_interval " + std::to_string(options.image_interval));
  TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::open(setup.model, options));
  TRY_ASSIGN(const Replay replay, make_replay(config, ReplayMode::kExact));

  // The longer request begins where the cold one ended. Its own images are where they would be had
  // it run alone: every interval, and at its end.
  const Ids prompt = random_ids(1, sizes.prompt);
  TRY_ASSIGN(const Finish cold, ask(*engine, prompt, 1));
  say(in_words("cold", cold));
  TRY_ASSIGN(const Finish longer,
             ask(*engine, joined(prompt, random_ids(2, sizes.longer - sizes.prompt)), 1));
  say(in_words("the longer one", longer));
  const Ids head(prompt.begin(), prompt.end() - sizes.fresh);
  TRY_ASSIGN(const Finish in_longer, ask(*engine, joined(head, random_ids(3, sizes.fresh)), 1));
  say(in_words("the head of the longer one", in_longer));
  TRY_ASSIGN(const Finish again, ask(*engine, joined(head, random_ids(4, sizes.fresh)), 1));
  say(in_words("that head again", again));

  const Ratio ratio{config, entry_s, cold, replay.late_from(sizes.prompt - 1)};
  Json out = Json::object({{"image_interval", Json::integer(options.image_interval)}});
  Json cold_figures = figures_of(cold);
  cold_figures.set("index_share", number(ratio.scoring_s(0, sizes.prompt) / first_token_s(cold)));
  out.set("cold", std::move(cold_figures));
  out.set("head_of_longer", ratio.of(in_longer));
  out.set("head_again", ratio.of(again));
  if (!interval) {
    TRY_ASSIGN(const Finish warm, after_finished(*engine, sizes));
    say(in_words("behind a finished one", warm));
    out.set("behind_finished", ratio.of(warm));
  }
  return out;
}

}  // namespace

Result<Json> prefix(const Setup& setup) {
  const Sizes sizes = sizes_for(setup);
  TRY_ASSIGN(const ModelConfig config, read_config(setup.model));
  const double entry_s = seconds_per_entry(config, sizes.prompt / 2) / setup.num_threads;
  std::vector<Json> runs;
  for (const std::optional<int> interval :
       {std::optional<int>(), std::optional<int>(1024), std::optional<int>(2048)}) {
    TRY_ASSIGN(Json run, with_interval(setup, config, entry_s, interval));
    runs.push_back(std::move(run));
  }
  return Json::object({{"prompt_tokens", Json::integer(sizes.prompt)},
                       {"longer_tokens", Json::integer(sizes.longer)},
                       {"fresh_tokens", Json::integer(sizes.fresh)},
                       {"index_entry_s", number(entry_s * setup.num_threads)},
                       {"runs", Json::array(std::move(runs))}});
}

Result<Json> replay(const Setup& setup) {
  const Sizes sizes = sizes_for(setup);
  TRY_ASSIGN(const ModelConfig config, read_config(setup.model));
  const double entry_s = seconds_per_entry(config, sizes.prompt / 2) / setup.num_threads;
  Json modes = Json::object();
  double off_s = 0;
  double off_rest_s = 0;
  for (const Mode& mode : kModes) {
    EngineOptions options = options_for(setup);
    options.bounded_replay = mode.asked;
    TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::open(setup.model, options));
    TRY_ASSIGN(const Finish finish, ask(*engine, random_ids(7, sizes.prompt), 1));
    say(in_words(std::string("replay ") + mode.name, finish));
    TRY_ASSIGN(const Replay rows, make_replay(config, mode.rows));
    const double seconds = first_token_s(finish);
    const double rest_s =
        seconds - entry_s * static_cast<double>(entries_scored(config, 0, sizes.prompt,
                                                               rows.late_from(sizes.prompt - 1)));
    if (mode.rows == ReplayMode::kOff) {
      off_s = seconds;
      off_rest_s = rest_s;
    }
    modes.set(mode.name,
              Json::object({{"rows_per_s", number(static_cast<double>(sizes.prompt) / seconds)},
                            {"ratio", number(off_s / seconds)},
                            {"index_share", number(1 - rest_s / seconds)},
                            {"ratio_without_index", number(off_rest_s / rest_s)}}));
  }
  return Json::object(
      {{"prompt_tokens", Json::integer(sizes.prompt)}, {"modes", std::move(modes)}});
}

}  // namespace stoker::bench
