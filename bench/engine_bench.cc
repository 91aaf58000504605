// Benchmarks of the engine on a made checkpoint: engine_bench --help. bench/README.md says what
// they mean.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <utility>

#include "api/loaded_model.h"
#include "bench/bench.h"

namespace stoker::bench {
namespace {

struct Benchmark {
  const char* name;
  Result<Json> (*run)(const Setup&);
};

constexpr Benchmark kAll[] = {{"throughput", throughput}, {"prefix", prefix}, {"replay", replay},
                              {"decode", decode},         {"steady", steady}, {"drafts", drafts}};

constexpr const char* kUsage =
    "usage: engine_bench --model DIR --out FILE [--slice DIR] [--threads N] [--quick] [NAME...]\n"
    "Names: throughput prefix replay decode steady drafts; all without a name. Progress on "
    "standard "
    "error,\n"
    "figures as JSON in FILE.\n";

struct Arguments {
  Setup setup;
  std::string out;
  std::vector<const Benchmark*> chosen;
};

const Benchmark* find(const char* name) {
  for (const Benchmark& benchmark : kAll) {
    if (std::strcmp(benchmark.name, name) == 0) return &benchmark;
  }
  return nullptr;
}

std::optional<Arguments> parse(std::span<char*> words) {
  Arguments out;
  int threads = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word == "--quick") {
      out.setup.quick = true;
    } else if (word == "--model" && has_value) {
      out.setup.model = words[++i];
    } else if (word == "--slice" && has_value) {
      out.setup.slice = words[++i];
    } else if (word == "--out" && has_value) {
      out.out = words[++i];
    } else if (word == "--threads" && has_value) {
      threads = std::atoi(words[++i]);
      if (threads < 1) return std::nullopt;
    } else if (const Benchmark* benchmark = find(words[i]); benchmark != nullptr) {
      out.chosen.push_back(benchmark);
    } else {
      return std::nullopt;
    }
  }
  if (out.setup.model.empty() || out.out.empty()) return std::nullopt;
  const auto usable = threads_to_use(threads);
  if (!usable) return std::nullopt;
  out.setup.num_threads = *usable;
  if (out.chosen.empty()) {
    for (const Benchmark& benchmark : kAll) out.chosen.push_back(&benchmark);
  }
  return out;
}

Result<Json> run(const Arguments& arguments) {
  const Setup& setup = arguments.setup;
  Json out = Json::object({{"threads", Json::integer(setup.num_threads)},
                           {"quick", Json::boolean(setup.quick)},
                           {"compiler", Json::string(__VERSION__)}});
  for (const Benchmark* benchmark : arguments.chosen) {
    say(std::string("== ") + benchmark->name);
    const MachineUse machine;
    auto figures = benchmark->run(setup);
    if (!figures) return std::move(figures).error().with(benchmark->name);
    figures->set("machine_use", machine.read());
    say(std::string("== ") + benchmark->name + ": " + machine.read().dump());
    out.set(benchmark->name, *std::move(figures));
  }
  return out;
}

}  // namespace

int run_program(std::span<char*> words) {
  const auto arguments = parse(words);
  if (!arguments) {
    std::cerr << kUsage;
    return 2;
  }
  const auto out = run(*arguments);
  if (!out) {
    std::cerr << "engine_bench: " << out.error().message << '\n';
    return 3;
  }
  std::ofstream file(arguments->out);
  file << out->dump() << '\n';
  if (!file.flush()) {
    std::cerr << "engine_bench: cannot write " << arguments->out << '\n';
    return 3;
  }
  return 0;
}

}  // namespace stoker::bench

int main(int argc, char** argv) {
  return stoker::bench::run_program(
      std::span(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0));
}
