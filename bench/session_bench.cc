// The first token behind a long conversation that was kept: session_bench MODEL [TOKENS [RUNS]].
// MODEL is a checkpoint whose context is long enough; the state of TOKENS tokens is made, not
// computed, which is the same work to load. Each run takes an engine that has just been opened.
// docs/performance.md says what was found.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "api/loaded_model.h"
#include "api/prefix_bytes.h"
#include "base/check.h"
#include "bench/made_records.h"
#include "kv/saved_prefix.h"
#include "stoker/session.h"

namespace stoker::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<int32_t> ids_of(int64_t count, int32_t vocab_size) {
  std::vector<int32_t> ids;
  uint32_t x = 1;
  for (int64_t i = 0; i < count; ++i) {
    x = x * 1664525 + 1013904223;
    ids.push_back(100 + static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab_size / 2)));
  }
  return ids;
}

// Puts the window that ends with a state into an image of it.
void copy_windows(const SequenceState& state, const SlotImage& image, const KvShape& shape) {
  for (int32_t ring = 0; ring < shape.num_rings; ++ring) {
    for (int64_t at = state.length() - shape.window; at < state.length(); ++at) {
      std::memcpy(image.window_row(ring, at), state.window_row(ring, at),
                  static_cast<size_t>(shape.window_record()));
    }
  }
  if (shape.num_draft_rings > 0) image.set_draft_from(state.length() - shape.window);
}

KeptPrefix made_prefix(const LoadedModel& loaded, const std::vector<int32_t>& ids) {
  const KvShape shape = loaded.model().state_shape();
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t bytes = 4 * shape.slot_bytes() + 4 * shape.image_unit_bytes() +
                        (blocks_for(tokens) + 1) * (shape.block_bytes() + kIndexBytesPerBlock);
  const auto plan = plan_kv(shape, {.bytes = bytes,
                                    .max_num_seqs = 1,
                                    .prefix_cache = true,
                                    .image_bytes = 2 * shape.image_unit_bytes()});
  CHECK(plan, "the budget is enough");
  const auto store = KvStore::create(shape, *plan);
  CHECK(store, "there is memory");
  PrefixCache cache(**store, 0);
  PrefixPath path;
  cache.open(path, "");
  auto state = SequenceState::create(**store, blocks_for(tokens));
  make_context(*state, shape, tokens);
  while (static_cast<int64_t>(path.nodes.size()) < blocks_for(tokens))
    cache.publish(path, *state, ids);
  const auto image = cache.take_image(true);
  CHECK(image, "there is room for one image");
  copy_windows(*state, cache.view(*image), shape);
  cache.add_image(path, tokens, *image);
  KeptPrefix kept;
  begin_prefix(kept.bytes);
  const auto saved = save_prefix(cache, **store, ids, tokens, kept.bytes);
  CHECK(saved && *saved == tokens, "it is all there");
  seal_prefix(kept.bytes, loaded.info());
  kept.num_tokens = tokens;
  return kept;
}

// An engine whose prefix cache holds what was made; it answers nothing.
class MadeEngine final : public Engine {
 public:
  MadeEngine(ModelInfo info, KeptPrefix kept) : info_(std::move(info)), kept_(std::move(kept)) {}
  const ModelInfo& model() const override { return info_; }
  std::string token_bytes(int32_t) const override { return ""; }
  Result<std::vector<int32_t>> encode(Prompt) const override { return std::vector<int32_t>(); }
  Result<std::string> decode(const std::vector<int32_t>&) const override { return std::string(); }
  Result<std::unique_ptr<Stream>> submit(Request, std::function<void()>) override {
    return Error{ErrorCode::kUnsupported, "no answers", ""};
  }
  EngineStats stats() const override { return {}; }
  void reset_prefix_cache() override {}
  Result<void> sleep(SleepLevel, bool) override { return {}; }
  void wake_up() override {}
  Result<void> start_profile() override { return {}; }
  Result<std::function<std::string()>> stop_profile() override {
    return Error{ErrorCode::kUnsupported, "no profile", ""};
  }
  void log_state() override {}
  bool healthy() const override { return true; }
  void drain(std::chrono::milliseconds) override {}
  Result<KeptPrefix> save_prefix(const std::vector<int32_t>&) override { return kept_; }
  const std::vector<uint8_t>& bytes() const { return kept_.bytes; }

 private:
  const ModelInfo info_;
  const KeptPrefix kept_;
};

// Until the first token of an answer was chosen.
void first_token(Engine& engine, std::vector<int32_t> ids, int64_t cached) {
  Request request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = 1;
  request.ignore_eos = true;
  auto stream = engine.submit(std::move(request));
  CHECK(stream, "a token can be asked for");
  std::optional<Event> event;
  while (!event || !event->finish) event = (*stream)->wait(std::chrono::seconds(1));
  CHECK(event->finish->usage.cached_tokens == cached, "it went on from what was loaded");
}

int run(const std::string& model, int64_t tokens, int runs) {
  const auto begin = Clock::now();
  LoadOptions load;
  const auto loaded = LoadedModel::load(model, load);
  if (!loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return 2;
  }
  tokens = tokens / kBlockTokens * kBlockTokens;
  std::vector<int32_t> ids = ids_of(tokens, (*loaded)->info().vocab_size);
  MadeEngine made((*loaded)->info(), made_prefix(**loaded, ids));
  const std::string store = std::filesystem::temp_directory_path() / "stoker_session_bench";
  const auto kept =
      keep_session(made, {"long", {{"user", {"?"}}, {"assistant", {"!"}}}, {}, {}}, store);
  CHECK(kept, "a session can be kept");
  std::printf("%lld tokens in %.1f MB, made in %.0f ms\n", static_cast<long long>(tokens),
              static_cast<double>(kept->num_bytes) / 1e6, ms_since(begin));
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    const std::vector<uint8_t> copy = made.bytes();
    std::printf("a plain copy into fresh memory: %.1f ms\n", ms_since(start));
  }
  const std::vector<int32_t> next = ids_of(30, (*loaded)->info().vocab_size);
  ids.insert(ids.end(), next.begin(), next.end());
  for (int i = 0; i < runs; ++i) {
    EngineOptions options;
    options.max_num_seqs = 1;
    const auto engine = Engine::open(model, options);
    CHECK(engine, "the model was loaded before");
    const auto start = Clock::now();
    const auto taken_up = load_session(**engine, "long", store);
    const double load_ms = ms_since(start);
    CHECK(taken_up && taken_up->num_tokens == tokens, "all of it was loaded");
    const auto asked = Clock::now();
    first_token(**engine, ids, tokens);
    std::printf("load %.1f ms, then a first token behind 30 more tokens %.1f ms: %.1f ms\n",
                load_ms, ms_since(asked), ms_since(start));
  }
  std::filesystem::remove_all(store);
  return 0;
}

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: session_bench MODEL [TOKENS [RUNS]]\n");
    return 2;
  }
  return stoker::bench::run(argv[1], argc > 2 ? std::atoll(argv[2]) : 100'000,
                            argc > 3 ? std::atoi(argv[3]) : 5);
}
