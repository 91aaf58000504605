// The real engine behind the door: turns requests into token requests, and their tokens back into
// text.
#include "stoker/engine.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "api/loaded_model.h"
#include "api/plans.h"
#include "api/text_stream.h"
#include "base/machine.h"
#include "base/try.h"
#include "engine/step_loop.h"
#include "snapshot/background_verify.h"

namespace stoker {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr size_t kMaxSaltBytes = 256;
constexpr double kMostTuneSeconds = 3600;

Error invalid(const std::string& field, const std::string& message) {
  return {ErrorCode::kInvalidArgument, field + ": " + message, field};
}

// A seed that fits a JSON number of any client.
uint64_t draw_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) >> 11;
}

Result<sampling::Params> resolve_sampling(const SamplingParams& asked,
                                          const SamplingParams& defaults) {
  sampling::Params params;
  params.temperature = asked.temperature.value_or(defaults.temperature.value_or(1.0));
  params.top_p = asked.top_p.value_or(defaults.top_p.value_or(1.0));
  params.top_k = asked.top_k.value_or(defaults.top_k.value_or(0));
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    return invalid("temperature",
                   "expected a number of at least 0, found " + std::to_string(params.temperature));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return invalid(
        "top_p", "expected a number above 0 and at most 1, found " + std::to_string(params.top_p));
  }
  if (params.top_k < -1) {
    return invalid(
        "top_k", "expected at least 1, or 0 or -1 for off, found " + std::to_string(params.top_k));
  }
  return params;
}

Result<void> check_stops(const std::vector<std::string>& stops, bool has_text) {
  if (!stops.empty() && !has_text) {
    return Error{ErrorCode::kUnsupported,
                 "stop: the model has no tokenizer.json, so its output is no text", "stop"};
  }
  if (stops.size() > kMaxStops) {
    return invalid("stop", "expected at most " + std::to_string(kMaxStops) + " strings, found " +
                               std::to_string(stops.size()));
  }
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return invalid("stop", "expected strings of 1 to " + std::to_string(kMaxStopBytes) +
                                 " bytes, found one of " + std::to_string(stop.size()));
    }
  }
  return {};
}

// What concerns the engine and not the answer.
Result<void> check_service(const Request& request, bool use_priorities) {
  if (request.priority != 0 && !use_priorities) {
    return invalid("priority",
                   "expected 0, since requests are served in the order of arrival; "
                   "found " +
                       std::to_string(request.priority));
  }
  if (request.timeout && request.timeout->count() <= 0) {
    return invalid("timeout",
                   "expected more than 0 ms, found " + std::to_string(request.timeout->count()));
  }
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return invalid("cache_salt", "expected at most " + std::to_string(kMaxSaltBytes) +
                                     " bytes, found " + std::to_string(request.cache_salt.size()));
  }
  return {};
}

// What a prompt of any kind is in ids.
struct Encoded {
  std::vector<int32_t> ids;
  std::string field;  // of the request
  bool is_chat = false;
  bool thinking = false;
};

class PromptEncoder {
 public:
  explicit PromptEncoder(const LoadedModel& model) : model_(model) {}

  Result<Encoded> operator()(TextPrompt& prompt) const {
    if (model_.tokenizer() == nullptr) {
      return Error{ErrorCode::kUnsupported,
                   "prompt: the model has no tokenizer.json: give token ids", "prompt"};
    }
    Encoded out{model_.tokenizer()->encode(prompt.text, Tokenizer::AddedTokens::kMatch), "prompt"};
    const int32_t bos = model_.checkpoint().config().bos_token_id;
    if (out.ids.empty() || (prompt.add_bos && out.ids[0] != bos))
      out.ids.insert(out.ids.begin(), bos);
    return out;
  }

  Result<Encoded> operator()(TokenPrompt& prompt) const {
    if (prompt.ids.empty()) return invalid("prompt", "expected at least one token id, found none");
    return Encoded{std::move(prompt.ids), "prompt"};
  }

  Result<Encoded> operator()(ChatPrompt& prompt) const {
    if (model_.encoder() == nullptr) {
      Error error = *model_.why_no_chat();
      error.field = "messages";
      return error;
    }
    chat::Conversation conversation;
    for (Message& message : prompt.messages) {
      conversation.messages.push_back({std::move(message.role), std::move(message.content),
                                       std::move(message.reasoning_content)});
    }
    conversation.thinking = std::move(prompt.thinking);
    conversation.reasoning_effort = std::move(prompt.reasoning_effort);
    TRY_ASSIGN(chat::Prompt encoded, model_.encoder()->encode(conversation));
    return Encoded{std::move(encoded.ids), "messages", true, encoded.thinking};
  }

 private:
  const LoadedModel& model_;
};

// How many tokens may be chosen: what was asked for, or what is left of the context.
Result<int32_t> resolve_max_tokens(std::optional<int32_t> asked, const Encoded& prompt,
                                   int32_t context) {
  const auto length = static_cast<int64_t>(prompt.ids.size());
  if (length >= context) {
    return invalid(prompt.field, "the prompt has " + std::to_string(length) +
                                     " tokens, and the context of " + std::to_string(context) +
                                     " must hold at least one more");
  }
  if (!asked) return static_cast<int32_t>(context - length);
  if (*asked < 1)
    return invalid("max_tokens", "expected at least 1, found " + std::to_string(*asked));
  if (length + *asked > context) {
    return invalid("max_tokens", "the context holds " + std::to_string(context) +
                                     " tokens; the prompt has " + std::to_string(length) + " and " +
                                     std::to_string(*asked) + " more are asked for");
  }
  return *asked;
}

// Readers of different streams log at the same time, and a sink is called once at a time.
LogSink one_at_a_time(const LogSink& log) {
  if (!log) return {};
  return [log, mutex = std::make_shared<std::mutex>()](LogLevel level, std::string_view line) {
    const std::lock_guard lock(*mutex);
    log(level, line);
  };
}

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<const LoadedModel> model, std::unique_ptr<engine::StepLoop> loop,
              const EngineOptions& options)
      : model_(std::move(model)),
        loop_(std::move(loop)),
        use_priorities_(options.use_priorities),
        log_(one_at_a_time(options.log)),
        on_stop_(options.on_stop) {
    const StoredWeights* stored = model_->stored();
    if (stored == nullptr || options.weights.verify == Verify::kFull) return;
    verify_.emplace(stored->object, [this](const Result<void>& verified) {
      if (!verified) stop_for(verified.error());
    });
  }

  // What runs ends first: nobody computes while the verifying thread comes to its end.
  ~LocalEngine() override { loop_->stop(); }
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  const ModelInfo& model() const override { return model_->info(); }

  Result<std::unique_ptr<Stream>> submit(Request request, std::function<void()> ready) override {
    const ModelInfo& info = model_->info();
    TRY_ASSIGN(const sampling::Params params, resolve_sampling(request.sampling, info.defaults));
    if (auto checked = check_stops(request.stop, info.has_text); !checked)
      return std::move(checked).error();
    if (auto checked = check_service(request, use_priorities_); !checked)
      return std::move(checked).error();
    TRY_ASSIGN(Encoded prompt, std::visit(PromptEncoder(*model_), request.prompt));
    if (auto checked = model_->check_ids(prompt.ids, prompt.field); !checked)
      return std::move(checked).error();
    TRY_ASSIGN(const int32_t max_tokens,
               resolve_max_tokens(request.max_tokens, prompt, info.max_context_tokens));

    const uint64_t seed = request.sampling.seed ? *request.sampling.seed : draw_seed();
    TextStream::Start start{prompt.ids,      seed, std::move(request.stop), prompt.is_chat,
                            prompt.thinking, log_};
    engine::TokenRequest tokens_of{.prompt = std::move(prompt.ids),
                                   .sampling = params,
                                   .seed = seed,
                                   .max_tokens = max_tokens,
                                   .stop_ids = model_->stop_ids(),
                                   .priority = request.priority,
                                   .deadline = std::nullopt,
                                   .cache_salt = std::move(request.cache_salt),
                                   .prompt_logprobs = request.prompt_logprobs};
    if (request.timeout) tokens_of.deadline = engine::Clock::now() + *request.timeout;
    TRY_ASSIGN(auto tokens, loop_->submit(std::move(tokens_of), std::move(ready)));
    return std::unique_ptr<Stream>(
        std::make_unique<TextStream>(model_, std::move(tokens), std::move(start)));
  }

  EngineStats stats() const override { return loop_->stats(); }
  void reset_prefix_cache() override { loop_->reset_prefix_cache(); }
  bool healthy() const override { return loop_->healthy(); }
  void drain(std::chrono::milliseconds limit) override { loop_->drain(limit); }

 private:
  // Nothing that was computed from damaged weights is worth an answer; and the next start makes new
  // ones.
  void stop_for(const Error& damage) {
    loop_->fail(damage);
    const StoredWeights& stored = *model_->stored();
    const auto removed = stored.store.remove(stored.object.section());
    if (log_) {
      log_(LogLevel::kError, "event=weights_damaged reason=\"" + damage.message + "\" removed=" +
                                 (removed ? "yes" : "\"" + removed.error().message + "\""));
    }
    if (on_stop_) on_stop_(damage);
  }

  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<engine::StepLoop> loop_;
  const bool use_priorities_;
  const LogSink log_;
  const std::function<void(const Error&)> on_stop_;
  std::optional<snapshot::BackgroundVerify> verify_;  // last: it uses the others
};

// Memory for the state of all sequences: what was asked for, or a half of the memory beside the
// weights (an eighth of all where they do not fit; they are mapped), and never more than sequences
// of the whole context can use, with their images.
int64_t state_budget(const EngineOptions& options, const LoadedModel& model) {
  if (options.kv_budget_bytes > 0) return options.kv_budget_bytes;
  const KvShape shape = model.model().state_shape();
  const int64_t block = shape.block_bytes() + (options.prefix_caching ? kIndexBytesPerBlock : 0);
  const int64_t each = shape.slot_bytes() + blocks_for(model.info().max_context_tokens) * block;
  int64_t most = options.max_num_seqs * each;
  if (options.prefix_caching)
    most += options.image_budget_bytes >= 0 ? options.image_budget_bytes : most / 7;
  const int64_t usable = usable_memory_bytes();
  const int64_t weights = model.checkpoint().weight_bytes();
  return std::min(weights < usable ? (usable - weights) / 2 : usable / 8, most);
}

Result<void> check_options(const EngineOptions& options) {
  const auto at_least = [](const char* field, int64_t least, int64_t found) -> Result<void> {
    if (found >= least) return {};
    return invalid(
        field, "expected at least " + std::to_string(least) + ", found " + std::to_string(found));
  };
  if (auto ok = at_least("max_num_seqs", 1, options.max_num_seqs); !ok) return ok;
  if (auto ok = at_least("kv_budget", 0, options.kv_budget_bytes); !ok) return ok;
  if (auto ok = at_least("max_queue", 0, options.max_queue); !ok) return ok;
  if (auto ok = at_least("image_budget", -1, options.image_budget_bytes); !ok) return ok;
  if (auto ok = at_least("max_num_batched_tokens", 1, options.max_num_batched_tokens); !ok)
    return ok;
  if (!(options.tune_seconds >= 0 && options.tune_seconds <= kMostTuneSeconds)) {
    return invalid("tune_seconds",
                   "expected 0 to 3600, found " + std::to_string(options.tune_seconds));
  }
  if (options.image_interval < 0 || options.image_interval % kBlockTokens != 0) {
    return invalid("image_interval", "expected 0 or a multiple of " + std::to_string(kBlockTokens) +
                                         ", found " + std::to_string(options.image_interval));
  }
  return {};
}

void log_loaded(const LogSink& log, const LoadedModel& loaded, const KvPlan& plan, int num_threads,
                const std::string& plan_source) {
  constexpr const char* kModes[] = {"off", "exact", "compact"};
  log(LogLevel::kInfo,
      "event=loaded model=" + loaded.info().name + " path=" + loaded.info().path +
          " weight_bytes=" + std::to_string(loaded.checkpoint().weight_bytes()) +
          " packed_weights=" +
          (loaded.stored() ? loaded.stored()->object.section().object() : "memory") +
          " threads=" + std::to_string(num_threads) + " plan=" + plan_source + " kv_bytes=" +
          std::to_string(plan.total_bytes) + " kv_tokens=" + std::to_string(plan.tokens()) +
          " max_num_seqs=" + std::to_string(plan.num_slots) +
          " image_units=" + std::to_string(plan.num_image_units) +
          " bounded_replay=" + kModes[static_cast<size_t>(loaded.model().replay().mode)] +
          " unused_tensors=" + std::to_string(loaded.checkpoint().unused().size()));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model,
                                             const EngineOptions& options) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  if (auto checked = check_options(options); !checked) return std::move(checked).error();
  TRY_ASSIGN(std::shared_ptr<const LoadedModel> loaded,
             LoadedModel::load(model, {num_threads, options.bounded_replay, options.weights,
                                       options.log, options.progress}));
  engine::EngineLimits limits;
  limits.max_num_seqs = options.max_num_seqs;
  limits.max_queue = options.max_queue;
  limits.kv_budget_bytes = state_budget(options, *loaded);
  limits.max_step_rows = std::max(options.max_num_batched_tokens, options.max_num_seqs);
  limits.prefix_cache = options.prefix_caching;
  limits.image_budget_bytes = options.image_budget_bytes;
  limits.image_interval = options.image_interval;
  TRY_ASSIGN(const EnginePlan plan, engine_plan(num_threads, options));
  limits.kernel_plan = plan.plan;
  TRY_ASSIGN(auto loop, engine::StepLoop::create(loaded->model(), num_threads, limits));
  if (options.log) log_loaded(options.log, *loaded, loop->plan(), num_threads, plan.source);
  return std::unique_ptr<Engine>(
      std::make_unique<LocalEngine>(std::move(loaded), std::move(loop), options));
}

const char* to_string(FinishReason reason) {
  constexpr const char* kWords[] = {"stop", "length", "abort", "error"};
  return kWords[static_cast<size_t>(reason)];
}

}  // namespace stoker
