// The real engine behind the door: turns requests into token requests, and their tokens back into
// text.
#include "stoker/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "api/canary.h"
#include "api/loaded_model.h"
#include "api/plans.h"
#include "api/prefix_bytes.h"
#include "api/profile_json.h"
#include "api/receipt.h"
#include "api/resolve.h"
#include "api/snapshot_save.h"
#include "api/structure.h"
#include "api/text_stream.h"
#include "base/machine.h"
#include "base/try.h"
#include "engine/step_loop.h"
#include "sampling/noise.h"
#include "snapshot/background_verify.h"

namespace stoker {
namespace {

constexpr double kMostTuneSeconds = 3600;

// A seed that fits a JSON number of any client.
uint64_t draw_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) >> 11;
}

// Readers of different streams log at the same time, and a sink is called once at a time.
LogSink one_at_a_time(const LogSink& log) {
  if (!log) return {};
  return [log, mutex = std::make_shared<std::mutex>()](LogLevel level, std::string_view line) {
    const std::lock_guard lock(*mutex);
    log(level, line);
  };
}

// The sequences of a request: alike but for their seeds. What is told of the prompt is told once.
std::vector<engine::TokenRequest> choices_of(const engine::TokenRequest& request, int32_t n) {
  std::vector<engine::TokenRequest> choices(static_cast<size_t>(n), request);
  for (size_t j = 1; j < choices.size(); ++j) {
    choices[j].seed = sampling::choice_seed(request.seed, j);
    choices[j].prompt_logprobs.reset();
    choices[j].tell_progress = false;
  }
  return choices;
}

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<LoadedModel> model, std::unique_ptr<engine::StepLoop> loop,
              const EngineOptions& options)
      : model_(std::move(model)),
        structures_(*model_),
        loop_(std::move(loop)),
        use_priorities_(options.use_priorities),
        num_threads_(options.num_threads),
        log_(one_at_a_time(options.log)),
        on_stop_(options.on_stop) {
    const StoredWeights* stored = model_->stored();
    if (stored == nullptr || options.weights.verify == Verify::kFull) return;
    std::vector<const snapshot::Object*> objects;
    for (const snapshot::Object& object : stored->objects) objects.push_back(&object);
    verify_.emplace(objects, [this](const Result<void>& verified, const snapshot::Object* damaged) {
      if (!verified) stop_for(verified.error(), *damaged);
    });
  }

  // What runs ends first: nobody computes while the verifying thread comes to its end.
  ~LocalEngine() override { loop_->stop(); }
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  const ModelInfo& model() const override { return model_->info(); }

  std::string token_bytes(int32_t id) const override {
    const Tokenizer* tokenizer = model_->tokenizer();
    if (tokenizer == nullptr || id < 0 || id >= tokenizer->size()) return {};
    return std::string(tokenizer->bytes(id));
  }

  Result<std::vector<int32_t>> encode(Prompt prompt) const override {
    Request request;
    request.prompt = std::move(prompt);
    TRY_ASSIGN(EncodedPrompt encoded, encode_prompt(request, *model_));
    return std::move(encoded.ids);
  }

  Result<std::string> decode(const std::vector<int32_t>& ids) const override {
    const Tokenizer* tokenizer = model_->tokenizer();
    if (tokenizer == nullptr) {
      return Error{ErrorCode::kUnsupported,
                   "tokens: the model has no tokenizer.json, so its tokens have no text", "tokens"};
    }
    const int32_t size = model_->info().vocab_size;
    for (const int32_t id : ids) {
      if (id < 0 || id >= size)
        return invalid("tokens", "expected ids from 0 to " + std::to_string(size - 1) + ", found " +
                                     std::to_string(id));
    }
    return tokenizer->decode(ids, /*skip_special=*/false);
  }

  Result<std::unique_ptr<Stream>> submit(Request request, std::function<void()> ready) override {
    if (auto open = check_open(); !open) return std::move(open).error();
    TRY_ASSIGN(engine::TokenRequest tokens_of, resolve_request(request, *model_, use_priorities_));
    TRY_ASSIGN(EncodedPrompt prompt, encode_prompt(request, *model_));
    if (auto checked = truncate_prompt(request, model_->info(), prompt); !checked)
      return std::move(checked).error();
    if (auto checked = resolve_lengths(request, prompt, model_->info(), tokens_of); !checked)
      return std::move(checked).error();
    if (auto checked = resolve_thinking(request, prompt, *model_, tokens_of); !checked)
      return std::move(checked).error();
    TRY_ASSIGN(tokens_of.constraint, structures_.plan(request, prompt));
    if (request.timeout) tokens_of.deadline = engine::Clock::now() + *request.timeout;
    tokens_of.prompt = prompt.ids;
    tokens_of.seed = request.sampling.seed ? *request.sampling.seed : draw_seed();

    std::optional<Receipt> receipt;
    if (request.receipt)
      receipt = begin_receipt(request, prompt, tokens_of.max_tokens, model_->info());

    auto news = std::make_shared<News>();
    TextStream::Start start{
        std::move(prompt.ids),
        {},
        news,
        {static_cast<int32_t>(tokens_of.prompt.size()),
         {std::move(request.stop), request.include_stop_str_in_output, request.stop_everywhere},
         std::move(request.stop_token_ids),
         request.min_tokens,
         std::move(prompt.reply),
         std::move(receipt),
         log_}};
    std::vector<engine::TokenRequest> choices = choices_of(tokens_of, request.n);
    for (const engine::TokenRequest& choice : choices) start.seeds.push_back(choice.seed);
    const auto tell = [news, ready = std::move(ready)] {
      news->set();
      if (ready) ready();
    };
    TRY_ASSIGN(auto tokens, loop_->submit(std::move(choices), tell));
    return std::unique_ptr<Stream>(std::make_unique<TextStream>(model_, tokens, std::move(start)));
  }

  EngineStats stats() const override { return loop_->stats(); }
  void reset_prefix_cache() override { loop_->reset_prefix_cache(); }
  Result<void> sleep(SleepLevel level, bool abort) override {
    if (auto open = check_open(); !open) return open;
    const bool has_weights = level == SleepLevel::kWeights;
    if (has_weights && !model_->can_drop_pages()) {
      return Error{ErrorCode::kUnsupported,
                   "level: expected 0 or 1, since the weights are not mapped from a store, found 2",
                   "level"};
    }
    loop_->sleep(static_cast<int32_t>(level), level != SleepLevel::kNothing,
                 has_weights ? [this] { model_->drop_pages(); } : std::function<void()>());
    if (abort) loop_->cancel_all();
    return {};
  }
  void wake_up() override {
    if (check_open()) loop_->wake_up();
  }

  Result<void> can_quiesce() const override { return model_->check_can_let_go(); }
  Result<void> quiesce(std::chrono::milliseconds grace) override {
    if (auto able = can_quiesce(); !able) return able;
    Access open = Access::kOpen;
    if (!access_.compare_exchange_strong(open, Access::kQuiesced))
      return Error{ErrorCode::kInvalidArgument, "the engine is quiesced already", ""};
    auto quiet = loop_->healthy() ? loop_->quiesce(grace) : engine_ended();
    if (!quiet) {
      access_ = Access::kOpen;
      return quiet;
    }
    const std::lock_guard no_longer_saving(files_);  // it gives up
    verify_.reset();
    return model_->let_go();
  }

  Result<void> resume(const ResumeOptions& options) override {
    if (access_ != Access::kQuiesced)
      return Error{ErrorCode::kInvalidArgument, "the engine is not quiesced", ""};
    TRY_ASSIGN(const int num_threads, threads_to_use(num_threads_));
    TRY_ASSIGN(const std::string canary,
               model_->map_again({options.store, num_threads, log_, options.progress}));
    resumer_ = std::this_thread::get_id();
    access_ = Access::kResuming;
    loop_->reopen();
    auto same = canary.empty() ? Result<void>() : ask(canary, options);
    loop_->reset_prefix_cache();  // of what only the canary asked
    if (!same) {
      access_ = Access::kQuiesced;
      (void)loop_->quiesce(std::chrono::milliseconds(0));
      (void)model_->let_go();
      return same;
    }
    access_ = Access::kOpen;
    return {};
  }

  Result<KeptPrefix> save_prefix(const std::vector<int32_t>& ids) override {
    if (auto open = check_open(); !open) return std::move(open).error();
    if (auto checked = model_->check_ids(ids, "ids"); !checked) return std::move(checked).error();
    KeptPrefix kept;
    begin_prefix(kept.bytes);
    TRY_ASSIGN(kept.num_tokens, loop_->save_prefix(ids, kept.bytes));
    seal_prefix(kept.bytes, model_->info());
    return kept;
  }

  Result<int64_t> load_prefix(std::span<const uint8_t> bytes) override {
    if (auto open = check_open(); !open) return std::move(open).error();
    const ModelInfo& info = model_->info();
    TRY_ASSIGN(const Bytes state, open_prefix(bytes, info));
    TRY_ASSIGN(const SavedPrefix saved,
               SavedPrefix::read(state, model_->model().state_shape(), info.vocab_size));
    const auto num_tokens = static_cast<int64_t>(saved.ids().size());
    if (num_tokens > info.max_context_tokens) {
      return Error{ErrorCode::kInvalidArgument,
                   "saved prefix: expected at most " + std::to_string(info.max_context_tokens) +
                       " tokens, the context, found " + std::to_string(num_tokens),
                   ""};
    }
    return loop_->load_prefix(saved);
  }

  Result<std::vector<std::vector<int32_t>>> cached_prefixes(size_t max) override {
    return loop_->cached_prefixes(max);
  }

  Result<SavedSnapshot> save_snapshot(const SaveSnapshot& what) override {
    const std::lock_guard saving(files_);
    if (auto open = check_open(); !open) return std::move(open).error();
    TRY_ASSIGN(const int num_threads, threads_to_use(num_threads_));
    SaveSnapshot how = what;
    how.is_cancelled = [this, &what] {
      return access_ != Access::kOpen || (what.is_cancelled && what.is_cancelled());
    };
    return save_running(*this, *model_, num_threads, how);
  }

  Result<void> start_profile() override {
    if (loop_->profile().start()) return {};
    return Error{ErrorCode::kInvalidArgument, "a profile was started already: stop it first", ""};
  }
  Result<std::function<std::string()>> stop_profile() override {
    auto steps = loop_->profile().stop();
    if (!steps) return Error{ErrorCode::kInvalidArgument, "no profile was started", ""};
    return std::function<std::string()>(
        [steps = *std::move(steps)] { return profile_json(steps); });
  }
  void log_state() override {
    if (log_) loop_->report([log = log_](std::string_view line) { log(LogLevel::kInfo, line); });
  }
  bool healthy() const override { return loop_->healthy(); }
  void drain(std::chrono::milliseconds limit) override { loop_->drain(limit); }

 private:
  // Who may have something computed.
  enum class Access {
    kOpen,
    kQuiesced,  // nobody: the weights are not there
    kResuming,  // who resumes, which asks the canary
  };

  Result<void> check_open() const {
    const Access access = access_;
    if (access == Access::kOpen) return {};
    if (access == Access::kResuming && resumer_ == std::this_thread::get_id()) return {};
    return Error{ErrorCode::kResourceExhausted, "the engine is quiesced: resume it first", ""};
  }

  static Result<void> engine_ended() {
    return Error{ErrorCode::kCancelled, "the engine has ended", ""};
  }

  Result<void> ask(const std::string& text, const ResumeOptions& options) {
    if (options.progress) options.progress({"asking the canary"});
    TRY_ASSIGN(const Canary canary, parse_canary(text, model_->info().vocab_size));
    return check_canary(*this, canary, options.canary_limit);
  }

  // Nothing that was computed from damaged weights is worth an answer; and the next start makes new
  // ones.
  void stop_for(const Error& damage, const snapshot::Object& damaged) {
    loop_->fail(damage);
    const auto removed = model_->stored()->store->remove(damaged.section());
    if (log_) {
      log_(LogLevel::kError, "event=weights_damaged reason=\"" + damage.message + "\" removed=" +
                                 (removed ? "yes" : "\"" + removed.error().message + "\""));
    }
    if (on_stop_) on_stop_(damage);
  }

  std::shared_ptr<LoadedModel> model_;
  Structures structures_;
  std::unique_ptr<engine::StepLoop> loop_;
  const bool use_priorities_;
  const int num_threads_;
  std::atomic<Access> access_{Access::kOpen};
  std::atomic<std::thread::id> resumer_{};
  std::mutex files_;  // held while a snapshot is made: the store and what is mapped stay
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

// None: no drafts.
Result<std::optional<engine::DraftOptions>> drafts_of(const SpeculationOptions& options,
                                                      const ModelConfig& config,
                                                      const LogSink& log) {
  std::optional<engine::DraftOptions> drafts;
  if (options.mode == Speculation::kOff) return drafts;
  if (config.num_nextn_predict_layers == 0) {
    if (options.mode == Speculation::kAuto) {
      if (log) log(LogLevel::kInfo, "event=no_drafts reason=\"the checkpoint has no draft head\"");
      return drafts;
    }
    return invalid("speculative_config",
                   "the checkpoint has no draft head (mtp.*): expected off or auto");
  }
  const int32_t most = config.dspark_block_size;
  if (options.num_speculative_tokens && *options.num_speculative_tokens > most) {
    return invalid("speculative_config.num_speculative_tokens",
                   "num_speculative_tokens: expected 1 to " + std::to_string(most) +
                       ", the checkpoint's dspark_block_size, found " +
                       std::to_string(*options.num_speculative_tokens));
  }
  if (options.num_speculative_tokens && *options.num_speculative_tokens < 1) {
    return invalid("speculative_config.num_speculative_tokens",
                   "num_speculative_tokens: expected at least 1, found " +
                       std::to_string(*options.num_speculative_tokens));
  }
  drafts = engine::DraftOptions{.num_drafts = options.num_speculative_tokens.value_or(most),
                                .is_adaptive = options.enable_adaptive_verification};
  return drafts;
}

void log_loaded(const LogSink& log, const LoadedModel& loaded, const KvPlan& plan, int num_threads,
                const std::string& plan_source, const std::optional<engine::DraftOptions>& drafts) {
  constexpr const char* kModes[] = {"off", "exact", "compact"};
  log(LogLevel::kInfo,
      "event=loaded model=" + loaded.info().name + " path=" + loaded.info().path +
          " weight_bytes=" + std::to_string(loaded.checkpoint().weight_bytes()) +
          " packed_weights=" +
          (loaded.stored() ? loaded.stored()->objects.front().section().object() : "memory") +
          " threads=" + std::to_string(num_threads) + " plan=" + plan_source + " kv_bytes=" +
          std::to_string(plan.total_bytes) + " kv_tokens=" + std::to_string(plan.tokens()) +
          " max_num_seqs=" + std::to_string(plan.num_slots) +
          " image_units=" + std::to_string(plan.num_image_units) +
          " bounded_replay=" + kModes[static_cast<size_t>(loaded.model().replay().mode)] +
          " drafts=" + (drafts ? std::to_string(drafts->num_drafts) : "off") +
          " unused_tensors=" + std::to_string(loaded.checkpoint().unused().size()));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model,
                                             const EngineOptions& options) {
  if (auto checked = check_options(options); !checked) return std::move(checked).error();
  TRY_ASSIGN(const LoadOptions how, load_options(options));
  TRY_ASSIGN(std::shared_ptr<LoadedModel> loaded, LoadedModel::load(model, how));
  return start_engine(std::move(loaded), options);
}

Result<LoadOptions> load_options(const EngineOptions& options) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  return LoadOptions{num_threads,     options.max_model_len, options.bounded_replay,
                     options.weights, options.log,           options.progress};
}

Result<std::unique_ptr<Engine>> start_engine(std::shared_ptr<LoadedModel> loaded,
                                             const EngineOptions& options) {
  if (auto checked = check_options(options); !checked) return std::move(checked).error();
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  engine::EngineLimits limits;
  limits.max_num_seqs = options.max_num_seqs;
  limits.max_queue = options.max_queue;
  limits.kv_budget_bytes = state_budget(options, *loaded);
  limits.max_step_rows = max_step_rows(options);
  limits.prefix_cache = options.prefix_caching;
  limits.image_budget_bytes = options.image_budget_bytes;
  limits.image_interval = options.image_interval;
  TRY_ASSIGN(const EnginePlan plan, engine_plan(num_threads, options));
  limits.kernel_plan = plan.plan;
  TRY_ASSIGN(limits.drafts,
             drafts_of(options.speculation, loaded->checkpoint().config(), options.log));
  TRY_ASSIGN(auto loop, engine::StepLoop::create(loaded->model(), num_threads, limits));
  if (options.log)
    log_loaded(options.log, *loaded, loop->plan(), num_threads, plan.source, limits.drafts);
  return std::unique_ptr<Engine>(
      std::make_unique<LocalEngine>(std::move(loaded), std::move(loop), options));
}

const char* to_string(FinishReason reason) {
  constexpr const char* kWords[] = {"stop", "length", "abort", "error", "tool_calls", "repetition"};
  return kWords[static_cast<size_t>(reason)];
}

}  // namespace stoker
