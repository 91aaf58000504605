#include "bench/bench.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <random>
#include <utility>

#include "base/try.h"
#include "kernels/index.h"
#include "kernels/plan.h"
#include "tensor/formats.h"

namespace stoker::bench {
namespace {

// Processor time of this process.
double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Processor time of everybody, from the first line of /proc/stat: "cpu", then ticks of user, nice,
// system, idle, waiting, interrupts, soft interrupts, stolen.
std::optional<double> all_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  std::array<double, 8> ticks{};
  if (!(file >> word)) return std::nullopt;
  for (double& count : ticks) {
    if (!(file >> count)) return std::nullopt;
  }
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

MachineUse::MachineUse() : begin_(Clock::now()), own_s_(own_seconds()), all_s_(all_seconds()) {}

Json MachineUse::read() const {
  const double seconds = seconds_since(begin_);
  const double own_s = own_seconds() - own_s_;
  const std::optional<double> all_s = all_seconds();
  return Json::object(
      {{"seconds", number(seconds)},
       {"own_cores", number(own_s / seconds)},
       {"other_cores",
        all_s && all_s_ ? number(std::max(0.0, (*all_s - *all_s_ - own_s) / seconds)) : Json()}});
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void say(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

Ids random_ids(uint32_t seed, int64_t count) {
  Ids ids;
  ids.reserve(static_cast<size_t>(count));
  uint32_t x = seed * 2654435761U + 1;
  for (int64_t i = 0; i < count; ++i) {
    x = x * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>(8 + (x >> 8) % 500));
  }
  return ids;
}

Ids joined(Ids head, const Ids& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Json number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.5g", value);
  return Json::number_text(text.data());
}

Json spread(std::vector<double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return Json::object(
      {{"min", number(least)}, {"median", number(median(values))}, {"max", number(most)}});
}

Json integers(const std::vector<int64_t>& values) {
  std::vector<Json> items;
  items.reserve(values.size());
  for (const int64_t value : values) items.push_back(Json::integer(value));
  return Json::array(std::move(items));
}

EngineOptions options_for(const Setup& setup) {
  EngineOptions options;
  options.num_threads = setup.num_threads;
  options.kv_budget_bytes = int64_t{1} << 30;
  options.weights.pack = false;  // nothing of the user's is written
  return options;
}

Result<Finish> ask(Engine& engine, Ids prompt, int32_t max_tokens) {
  Request request;
  request.prompt = TokenPrompt{std::move(prompt)};
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  TRY_ASSIGN(const std::unique_ptr<Stream> stream, engine.submit(std::move(request)));
  while (true) {
    const auto event = stream->wait(std::chrono::seconds(1));
    if (!event || !event->finish) continue;
    if (event->finish->error) return *event->finish->error;
    return *event->finish;
  }
}

int64_t entries_scored(const ModelConfig& c, int64_t begin, int64_t end, int64_t late_from) {
  const int32_t last_source = c.kv_source_layer_ids.back();
  const int64_t most_candidates = int64_t{c.candidate_topk_blocks} * c.candidate_block_size;
  int64_t entries = 0;
  for (const int32_t layer : c.index_source_layer_ids) {
    const int64_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
    const bool among_candidates =
        c.candidate_source_layer_id >= 0 && layer > c.candidate_source_layer_id;
    for (int64_t row = layer >= last_source ? std::max(begin, late_from) : begin; row < end;
         ++row) {
      const int64_t visible = (row + 1) / ratio;
      entries += among_candidates ? std::min(visible, most_candidates) : visible;
    }
  }
  return entries;
}

double seconds_per_entry(const ModelConfig& c, int64_t num_entries) {
  constexpr int64_t kRows = 16;
  const int64_t dim = c.index_head_dim;
  const auto heads = static_cast<size_t>(kRows * c.index_n_heads);
  const int64_t record = index_record_bytes(dim);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> key(static_cast<size_t>(dim));
  std::vector<uint8_t> keys(static_cast<size_t>(num_entries * record));
  for (int64_t i = 0; i < num_entries; ++i) {
    std::ranges::generate(key, [&] { return normal(random); });
    encode_index(key.data(), dim, keys.data() + i * record);
  }
  std::vector<const uint8_t*> places;
  for (int64_t i = 0; i < num_entries; ++i) places.push_back(keys.data() + i * record);
  const kernels::Kernels& level = *kernels::default_plan()->index_scores;
  const std::vector<float> weights(heads, 0.25F);
  std::vector<float> q(static_cast<size_t>(kernels::arranged_floats(
      WeightFormat::kFp4Panel, level.bf16_pairs, static_cast<int64_t>(heads), dim)));
  std::vector<float> scratch(
      static_cast<size_t>(kernels::index_scratch_floats(kRows, c.index_n_heads, c.index_head_dim)));
  std::vector<float> scores(static_cast<size_t>(kRows * num_entries));
  std::vector<int32_t> list(static_cast<size_t>(kernels::top_list_size(num_entries, c.index_topk)));
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    std::ranges::generate(q, [&] { return bf16_round(normal(random)); });
    const auto num_queries = static_cast<int64_t>(heads);
    const Clock::time_point begin = Clock::now();
    level.index_scores({{q.data(), num_queries, num_queries, nullptr},
                        weights.data(),
                        kRows,
                        c.index_n_heads,
                        dim,
                        places.data(),
                        num_entries,
                        scratch.data(),
                        scores.data(),
                        num_entries});
    for (int64_t row = 0; row < kRows; ++row) {
      kernels::top_indices(scores.data() + row * num_entries, num_entries, c.index_topk,
                           list.data());
    }
    seconds.push_back(seconds_since(begin));
  }
  return median(seconds) / static_cast<double>(kRows * num_entries);
}

}  // namespace stoker::bench
