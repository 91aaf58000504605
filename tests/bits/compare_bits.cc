// compare_bits MODEL: the logits of a checkpoint by kernels/ref, against every level of this
// processor, alone and mixed, on 1 to 4 threads, in batches of 1 to 64 sequences. They must be
// equal, bit for bit.
//
// The plain pass runs once, all sequences together. A batch then takes some of them: a step with
// prompts of one to a dozen tokens and some that are longer than the window, then steps that
// decode.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/try.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/packed_weights.h"
#include "support/kv.h"
#include "support/plain_kernels.h"

namespace stoker::bits {
namespace {

using kernels::Isa;
using kernels::KernelPlan;

constexpr int64_t kDecodes = 3;  // steps behind the prompt
constexpr int kMostThreads = 4;

constexpr const char* kUsage =
    "Usage: compare_bits MODEL [OPTIONS]\n\n"
    "Computes the logits of made sequences with the plain kernels, then with every level of this\n"
    "processor and with drawn plans, and compares the bits. Exit code 0: all are equal.\n\n"
    "  --batches A,B,..  sequences that share the steps [1 to 64, each]\n"
    "  --plans N         plans with a level drawn for each choice [50]\n"
    "  --turns           thread counts by turns from batch to batch, not each with each\n"
    "  --help            print this\n";

struct Options {
  std::string model;
  std::vector<int64_t> batches;
  int64_t plans = 50;
  bool turns = false;
};

// Ids of a sequence, of which the last kDecodes are given one by one.
std::vector<int32_t> made_ids(const ModelConfig& c, int64_t sequence) {
  std::mt19937 random(static_cast<uint32_t>(sequence + 1));
  const int64_t prompt = sequence % 8 == 5 ? c.sliding_window + 24 : 1 + sequence * 5 % 12;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < prompt + kDecodes; ++i) {
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.vocab_size)));
  }
  return ids;
}

// Runs batches of the same sequences by any plan.
class Sequences {
 public:
  Sequences(const ModelConfig& config, const KvShape& shape, int64_t count)
      : config_(config), logits_(static_cast<size_t>(count)) {
    int64_t num_blocks = 0;
    for (int64_t i = 0; i < count; ++i) {
      ids_.push_back(made_ids(config, i));
      num_blocks += blocks_for(static_cast<int64_t>(ids_.back().size()));
    }
    store_ = testing::store_of(shape, static_cast<int32_t>(count), 0, num_blocks);
  }

  int64_t count() const { return static_cast<int64_t>(ids_.size()); }

  // What is compared with.
  void keep(const Model& model, int threads) {
    run(model, testing::plain_plan(), threads, 0, count(),
        [this](int64_t sequence, int64_t /*step*/, std::span<const float> logits) {
          std::vector<float>& kept = logits_[static_cast<size_t>(sequence)];
          kept.insert(kept.end(), logits.begin(), logits.end());
        });
  }

  // The first difference in a batch of `batch` sequences from number `first` on, if any.
  std::optional<std::string> difference(const Model& model, const KernelPlan& plan, int threads,
                                        int64_t first, int64_t batch) {
    std::optional<std::string> found;
    run(model, plan, threads, first, batch,
        [&](int64_t sequence, int64_t step, std::span<const float> logits) {
          const float* kept = logits_[static_cast<size_t>(sequence)].data() +
                              step * static_cast<int64_t>(logits.size());
          for (size_t i = 0; i < logits.size() && !found; ++i) {
            if (std::bit_cast<uint32_t>(logits[i]) != std::bit_cast<uint32_t>(kept[i]))
              found = told(sequence, step, i, logits[i], kept[i]);
          }
        });
    return found;
  }

 private:
  // see(sequence, step, logits [vocab_size]) for each of the batch in each step.
  template <class See>
  void run(const Model& model, const KernelPlan& plan, int threads, int64_t first, int64_t batch,
           const See& see) {
    WorkerPool pool(threads);
    Workspace work(config_, pool, plan, 64);
    std::vector<SequenceState> states;
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < batch; ++i) {
      numbers.push_back((first + i) % count());
      const auto tokens = static_cast<int64_t>(ids_of(numbers.back()).size());
      auto state = SequenceState::create(*store_, blocks_for(tokens));
      CHECK(state && state->reserve(tokens), "the store was made for all of them");
      states.push_back(*std::move(state));
    }
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    std::vector<float> logits(numbers.size() * vocab);
    for (int64_t step = 0; step <= kDecodes; ++step) {
      std::vector<Segment> segments;
      std::vector<int64_t> wanted;
      int64_t rows = 0;
      for (size_t i = 0; i < states.size(); ++i) {
        const std::span<const int32_t> ids = ids_of(numbers[i]);
        const size_t prompt = ids.size() - kDecodes;
        segments.push_back(
            {&states[i], step == 0 ? ids.first(prompt)
                                   : ids.subspan(prompt + static_cast<size_t>(step) - 1, 1)});
        rows += static_cast<int64_t>(segments.back().ids.size());
        wanted.push_back(rows - 1);
      }
      model.forward(work, segments, wanted, logits.data(), nullptr);
      for (size_t i = 0; i < numbers.size(); ++i)
        see(numbers[i], step, std::span<const float>(logits).subspan(i * vocab, vocab));
    }
  }

  std::span<const int32_t> ids_of(int64_t sequence) const {
    return ids_[static_cast<size_t>(sequence)];
  }

  static std::string told(int64_t sequence, int64_t step, size_t id, float found, float kept) {
    char text[160];
    std::snprintf(text, sizeof text, "sequence %d, step %d, logit %zu: %a, expected %a",
                  static_cast<int>(sequence), static_cast<int>(step), id,
                  static_cast<double>(found), static_cast<double>(kept));
    return text;
  }

  const ModelConfig& config_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<std::vector<float>> logits_;  // [sequences][steps * vocab_size]
  std::unique_ptr<KvStore> store_;
};

// A level of this processor for each of a plan's choices.
KernelPlan drawn_plan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<Isa> usable = kernels::usable_levels();
  const auto draw = [&] { return &kernels::kernels_of(usable[random() % usable.size()]); };
  KernelPlan plan;
  for (auto& classes : plan.products) std::ranges::generate(classes, draw);
  plan.index_scores = draw();
  plan.rest = draw();
  return plan;
}

// Counts what was compared, and tells what differs.
class Comparison {
 public:
  Comparison(const Model& model, Sequences& sequences) : model_(model), sequences_(sequences) {}

  void add(const std::string& name, const KernelPlan& plan, int threads, int64_t batch) {
    // Another first sequence each time, so that small batches are not always the same ones.
    const auto difference =
        sequences_.difference(model_, plan, threads, num_batches_ % sequences_.count(), batch);
    ++num_batches_;
    std::fprintf(stderr, "%d: %s, %d threads, batch of %d\n", static_cast<int>(num_batches_),
                 name.c_str(), threads, static_cast<int>(batch));
    if (!difference) return;
    ++num_differing_;
    std::printf("%s, %d threads, batch of %d: %s\n", name.c_str(), threads, static_cast<int>(batch),
                difference->c_str());
  }

  int64_t num_batches() const { return num_batches_; }
  int64_t num_differing() const { return num_differing_; }

 private:
  const Model& model_;
  Sequences& sequences_;
  int64_t num_batches_ = 0;
  int64_t num_differing_ = 0;
};

void compare_all(const Options& options, Comparison& comparison) {
  for (const Isa isa : kernels::usable_levels()) {
    const std::string name(isa_name(isa));
    const KernelPlan plan = kernels::plan_of(isa);
    const int64_t before = comparison.num_batches();
    for (const int64_t batch : options.batches) {
      for (int threads = 1; threads <= kMostThreads; ++threads) {
        if (!options.turns || threads == 1 + batch % kMostThreads)
          comparison.add(name, plan, threads, batch);
      }
    }
    std::printf("%s: %d batches compared\n", name.c_str(),
                static_cast<int>(comparison.num_batches() - before));
    std::fflush(stdout);
  }
  for (int64_t i = 0; i < options.plans; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const int64_t batch = options.batches[(seed * 7 + 3) % options.batches.size()];
    comparison.add("plan " + std::to_string(i), drawn_plan(seed),
                   1 + static_cast<int>(i % kMostThreads), batch);
  }
  if (options.plans > 0) std::printf("%d drawn plans compared\n", static_cast<int>(options.plans));
}

// Whether all were equal.
Result<bool> run(const Options& options) {
  TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(options.model, kMostThreads));
  const ModelConfig& config = checkpoint.config();
  // Any map will do: classes of tokens are only indices here.
  std::vector<int32_t> map(static_cast<size_t>(config.vocab_size));
  for (size_t id = 0; id < map.size() && config.engram_compressed_vocab_size > 0; ++id)
    map[id] = static_cast<int32_t>(id) % config.engram_compressed_vocab_size;
  TRY_ASSIGN(const Model plain, Model::create(config, checkpoint.weights(), map));
  WorkerPool pool(kMostThreads);
  const PackedWeights packed = PackedWeights::make(checkpoint.weights(), pool, {});
  TRY_ASSIGN(const Model model, Model::create(config, packed.weights(), map));
  Sequences sequences(config, plain.state_shape(), std::ranges::max(options.batches));
  std::fprintf(stderr, "kernels/ref, %d sequences\n", static_cast<int>(sequences.count()));
  sequences.keep(plain, kMostThreads);
  Comparison comparison(model, sequences);
  compare_all(options, comparison);
  std::printf("%d of %d batches differ from kernels/ref\n",
              static_cast<int>(comparison.num_differing()),
              static_cast<int>(comparison.num_batches()));
  return comparison.num_differing() == 0;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// "1,2,64"; empty where that is not what it is.
std::vector<int64_t> numbers_of(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t comma = text.find(',');
    const auto number = number_of(text.substr(0, comma));
    if (!number || *number == 0) return {};
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

std::optional<Options> parse(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--turns") {
      options.turns = true;
    } else if (words[i] == "--batches" && has_value) {
      options.batches = numbers_of(words[++i]);
      if (options.batches.empty()) return std::nullopt;
    } else if (words[i] == "--plans" && has_value) {
      const auto plans = number_of(words[++i]);
      if (!plans) return std::nullopt;
      options.plans = *plans;
    } else if (!words[i].starts_with("--") && options.model.empty()) {
      options.model = words[i];
    } else {
      return std::nullopt;
    }
  }
  if (options.model.empty()) return std::nullopt;
  if (options.batches.empty()) {
    options.batches.resize(64);
    std::iota(options.batches.begin(), options.batches.end(), 1);
  }
  return options;
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  const auto options = parse(words);
  if (!options) {
    std::fputs(kUsage, words == std::vector<std::string>{"--help"} ? stdout : stderr);
    return words == std::vector<std::string>{"--help"} ? 0 : 2;
  }
  const auto equal = run(*options);
  if (!equal) {
    std::fprintf(stderr, "compare_bits: %s\n", equal.error().message.c_str());
    return 3;
  }
  return *equal ? 0 : 1;
}

}  // namespace stoker::bits

int main(int argc, char** argv) {
  return stoker::bits::run_program({argv + (argc > 0 ? 1 : 0), argv + argc});
}
