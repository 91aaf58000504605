// Steps of a model at the released widths against the limits of this machine, by the rows of
// docs/performance.md: step_bench MODEL STORE, a checkpoint of tools/make_slice and a folder for
// its packed weights.
//
// The limit of a step is reading the weights that it reads once, or the multiplications that it
// does, whichever takes longer; what it reads and multiplies is noted by its kernels.
#include <cstdio>
#include <random>
#include <string>

#include "api/loaded_model.h"
#include "base/check.h"
#include "bench/made_records.h"
#include "bench/rows.h"
#include "bench/start_rows.h"
#include "support/watched_kernels.h"

namespace stoker::bench {
namespace {

constexpr int64_t kReadBytes = int64_t{512} << 20;
constexpr int kThreads = 2;

// Sequences of one model whose next rows are run by hand.
class Runner {
 public:
  Runner(const Model& model, int threads, int64_t num_sequences, int64_t max_tokens)
      : model_(model),
        pool_(threads),
        work_(model.config(), pool_, testing::watched_plan(), 64),
        random_(1) {
    const KvShape shape = model.state_shape();
    const int64_t blocks = blocks_for(max_tokens);
    const auto plan =
        plan_kv(shape, {.bytes = (num_sequences + 1) *
                                 (2 * shape.slot_bytes() + (blocks + 1) * shape.block_bytes()),
                        .max_num_seqs = static_cast<int32_t>(num_sequences)});
    CHECK(plan, "the plan is for these sequences");
    auto store = KvStore::create(shape, *plan);
    CHECK(store, "there is memory for the sequences");
    store_ = *std::move(store);
    for (int64_t i = 0; i < num_sequences; ++i)
      states_.push_back(*SequenceState::create(*store_, blocks));
  }

  WorkerPool& pool() { return pool_; }
  SequenceState& state(size_t i) { return states_[i]; }
  const KvShape& shape() const { return store_->shape(); }

  // One step with `rows` more rows of each sequence; the logits of the last of each.
  double step(int64_t rows) {
    std::vector<std::vector<int32_t>> ids(states_.size());
    std::vector<Segment> batch;
    std::vector<int64_t> wanted;
    for (size_t i = 0; i < states_.size(); ++i) {
      CHECK(states_[i].reserve(states_[i].length() + rows), "the store was made for it");
      for (int64_t r = 0; r < rows; ++r)
        ids[i].push_back(static_cast<int32_t>(random_() % 1000 + 5));
      batch.push_back({&states_[i], ids[i]});
      wanted.push_back(static_cast<int64_t>(i + 1) * rows - 1);
    }
    logits_.resize(wanted.size() * static_cast<size_t>(model_.config().vocab_size));
    testing::take_work();
    return seconds_of([&] { model_.forward(work_, batch, wanted, logits_.data(), nullptr); });
  }

 private:
  const Model& model_;
  WorkerPool pool_;
  Workspace work_;
  std::mt19937 random_;
  std::unique_ptr<KvStore> store_;
  std::vector<SequenceState> states_;
  std::vector<float> logits_;
};

const uint8_t* readable() {
  static uint8_t* memory = [] {
    uint8_t* all = map_memory(kReadBytes);
    for (int64_t at = 0; at < kReadBytes; ++at) all[at] = static_cast<uint8_t>(at);
    return all;
  }();
  return memory;
}

// Seconds that a step with that work takes at least, and by what.
double limit_seconds(Runner& runner, const testing::Work& work, std::vector<double>& reads,
                     std::string& by) {
  const double read_s = read_seconds(runner.pool(), readable(), kReadBytes);
  std::string with;
  const double flops = peak(runner.pool(), with);
  reads.push_back(read_s);
  const double bytes_s = work.weight_bytes / static_cast<double>(kReadBytes) * read_s;
  const double flops_s = work.flops / flops;
  by = bytes_s > flops_s ? "a plain read, " + rate(static_cast<double>(kReadBytes) / read_s)
                         : with + ", " + rate(flops);
  return std::max(bytes_s, flops_s);
}

// `warm_up` steps, then as many as there are pairs, of `rows` rows of each sequence.
void steps(benchmark::State& state, const Row& row, Runner& runner, int64_t rows, int warm_up) {
  std::vector<double> shares;
  std::vector<double> reads;
  std::string by;
  double seconds = 0;
  for (auto _ : state) {
    for (int i = 0; i < warm_up; ++i) runner.step(rows);
    for (int pair = 0; pair < kPairs; ++pair) {
      seconds = runner.step(rows);
      shares.push_back(limit_seconds(runner, testing::take_work(), reads, by) / seconds);
    }
  }
  char note[64];
  std::snprintf(note, sizeof note, "%.1f ms against ", seconds * 1e3);
  report(state, row, shares, by.starts_with("a plain") ? reads : std::vector<double>(), note + by);
}

void decode(benchmark::State& state, const Row& row, const Model& model, int64_t sequences) {
  Runner runner(model, kThreads, sequences, 1024);
  runner.step(160);  // more than the window
  steps(state, row, runner, 1, 3);
}

void prefill(benchmark::State& state, const Row& row, const Model& model, int64_t rows) {
  Runner runner(model, kThreads, 1, rows * (kPairs + 2));
  steps(state, row, runner, rows, 1);
}

// Index scoring of a token far into a context, to the multiplications that it takes.
void long_context(benchmark::State& state, const Row& row, const Model& model, int64_t tokens) {
  Runner runner(model, kThreads, 1, tokens + 64);
  make_context(runner.state(0), runner.shape(), tokens);
  std::vector<double> shares;
  std::string with;
  double seconds = 0;
  for (auto _ : state) {
    runner.step(1);
    for (int pair = 0; pair < kPairs; ++pair) {
      testing::take_index_seconds();
      seconds = runner.step(1);
      const double scoring_s = testing::take_index_seconds() / kThreads;
      const double limit_s = testing::take_work().index_flops / peak(runner.pool(), with);
      shares.push_back(limit_s / scoring_s);
    }
  }
  char note[64];
  std::snprintf(note, sizeof note, "a step %.1f ms; scoring against ", seconds * 1e3);
  report(state, row, shares, {}, note + with);
}

// One thread to two, same steps by turns.
void threads(benchmark::State& state, const Row& row, const Model& model, int64_t rows,
             bool reads_weights) {
  Runner one(model, 1, 1, rows * (kPairs + 2) + 256);
  Runner two(model, 2, 1, rows * (kPairs + 2) + 256);
  std::vector<double> ratios;
  for (auto _ : state) {
    one.step(rows);
    two.step(rows);
    for (int pair = 0; pair < kPairs; ++pair) {
      const double gain = one.step(rows) / two.step(rows);
      const double read_gain = read_seconds(one.pool(), readable(), kReadBytes) /
                               read_seconds(two.pool(), readable(), kReadBytes);
      ratios.push_back(reads_weights ? gain / read_gain : gain);
    }
  }
  report(state, row, ratios, {}, reads_weights ? "speed-up, to that of a plain read" : "speed-up");
}

void add_all(const Model& model) {
  const auto with = [&model](auto run, auto... more) {
    return [&model, run, more...](benchmark::State& state, const Row& row) {
      run(state, row, model, more...);
    };
  };
  add({"step_decode/sequences:1", 0.88}, with(decode, int64_t{1}));
  add({"step_decode/sequences:4", 0.83}, with(decode, int64_t{4}));
  add({"step_decode/sequences:8", 0.75}, with(decode, int64_t{8}));
  add({"step_prefill/rows:512", 0.70}, with(prefill, int64_t{512}));
  add({"step_prefill/rows:2048", 0.75}, with(prefill, int64_t{2048}));
  add({"index_scoring/context:262144", 0.80}, with(long_context, int64_t{262144}));
  add({"threads_1_to_2/prefill", 1.9}, with(threads, int64_t{512}, false));
  add({"threads_1_to_2/decode", 0.95}, with(threads, int64_t{1}, true));
}

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): main only
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: step_bench [--benchmark_...] MODEL STORE\n");
    return 2;
  }
  const auto loaded = LoadedModel::load(argv[1], {.num_threads = bench::kThreads,
                                                  .bounded_replay = BoundedReplay::kOff,
                                                  .weights = {.pack = false}});
  if (!loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return 2;
  }
  bench::add_all((*loaded)->model());
  bench::add_start_rows(argv[1], argv[2], bench::kThreads);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
