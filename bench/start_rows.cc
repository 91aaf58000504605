#include "bench/start_rows.h"

#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "bench/rows.h"
#include "snapshot/object.h"
#include "stoker/engine.h"
#include "stoker/pack.h"

namespace stoker::bench {
namespace {

struct Start {
  std::string model;
  std::string store;
  int num_threads = 1;
};

// The packed file, mapped by nobody else.
snapshot::ObjectMapping map_packed(const PackedFile& packed) {
  const Descriptor file(::open(packed.path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(file.get() >= 0, "the packed file is there");
  auto mapping = snapshot::ObjectMapping::map(file.get(), packed.num_bytes, packed.path);
  CHECK(mapping, "a file can be mapped");
  return *std::move(mapping);
}

std::unique_ptr<Engine> open_engine(const Start& start) {
  EngineOptions options;
  options.num_threads = start.num_threads;
  options.weights.store = start.store;
  auto engine = Engine::open(start.model, options);
  CHECK(engine, "a model that was packed can be opened");
  return *std::move(engine);
}

// The answer of one token to a prompt of one, from its submission on.
double token_seconds(Engine& engine) {
  Request request;
  request.prompt = TokenPrompt{{5}};
  request.max_tokens = 1;
  request.ignore_eos = true;
  auto stream = engine.submit(request);
  CHECK(stream, "a token can be asked for");
  std::optional<Event> event;
  while (!event || !event->finish) event = (*stream)->wait(std::chrono::seconds(1));
  CHECK(!event->finish->error, "a token can be chosen");
  return event->finish->timings.first_token.count();
}

// Opening an engine, to what even a start that does nothing else waits for before its first token:
// mapping the weights, and computing that token from pages that this process has not touched.
void second_start(benchmark::State& state, const Row& row, const Start& start) {
  const auto packed = pack_model(start.model, {.store = start.store});
  if (!packed) {
    state.SkipWithError(packed.error().message.c_str());
    return;
  }
  std::vector<double> ratios;
  std::vector<double> starts;
  std::vector<double> tokens;
  for (auto _ : state) {
    WorkerPool pool(start.num_threads);
    // All of it is in the page cache then, where there is room.
    read_seconds(pool, map_packed(*packed).bytes().data(), packed->num_bytes);
    for (int pair = 0; pair < kPairs; ++pair) {
      const double map_s = seconds_of([&] { map_packed(*packed); });
      std::unique_ptr<Engine> engine;
      starts.push_back(seconds_of([&] { engine = open_engine(start); }));
      tokens.push_back(token_seconds(*engine));
      ratios.push_back(starts.back() / (map_s + tokens.back()));
    }
  }
  char note[96];
  std::snprintf(note, sizeof note, "%.1f ms against mapping and a first token, %.1f ms",
                median(starts) * 1e3, median(tokens) * 1e3);
  report(state, row, ratios, {}, note);
}

}  // namespace

void add_start_rows(const std::string& model, const std::string& store, int num_threads) {
  add({"second_start", 1.2, true},
      [start = Start{model, store, num_threads}](benchmark::State& state, const Row& row) {
        second_start(state, row, start);
      });
}

}  // namespace stoker::bench
