#include "common.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "loading.h"
#include "output.h"

namespace stoker {
namespace {

/// How long an interrupt may go unseen while no event comes.
constexpr std::chrono::milliseconds kInterruptPeriod{50};

/// That a first start measures kernels at most.
constexpr double kStartTuneSeconds = 3;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::string> read_all(std::FILE* file, const std::string& name) {
  std::string content;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) content.append(buffer, n);
  if (std::ferror(file) != 0) return Error{ErrorCode::kIo, name + ": " + std::strerror(errno), ""};
  return content;
}

/// Takes the first run of other characters than separators from `text`; empty at its end.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view kSeparators = ", \t\n\r\f\v";
  text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

int report(const Error& error) {
  const bool names_field = error.message.find(error.field) != std::string::npos;
  const std::string field = names_field ? "" : error.field + ": ";
  std::fprintf(stderr, "stoker: %s%s\n", field.c_str(), error.message.c_str());
  return error_code_info(error.code).exit_code;
}

int print_result(std::string_view text) {
  Output out;
  out.write(text);
  const Result<void> written = out.result();
  return written ? 0 : report(written.error());
}

Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, path + ": expected a file to read: " + std::strerror(errno), ""};
  }
  return read_all(file.get(), path);
}

Result<std::string> read_standard_input() {
  return read_all(stdin, "standard input");
}

Result<std::vector<int32_t>> parse_ids(std::string_view text, const std::string& what) {
  std::vector<int32_t> ids;
  while (true) {
    const std::string_view word = next_word(text);
    if (word.empty()) return ids;
    int32_t id = 0;
    const char* end = word.data() + word.size();
    const auto [stop, code] = std::from_chars(word.data(), end, id);
    if (code != std::errc() || stop != end) {
      std::string message = what + ": expected whole numbers separated by white space or commas";
      message += ", found '" + std::string(word.substr(0, 40)) + "'";
      message += " after " + std::to_string(ids.size()) + " of them";
      return Error{ErrorCode::kInvalidArgument, message, ""};
    }
    ids.push_back(id);
  }
}

void add_threads_option(OptionParser& parser, int* num_threads) {
  parser.option("--threads", "N", num_threads, "Threads that compute; 0: one per core [0]");
}

void add_store_option(OptionParser& parser, std::string* store) {
  parser.option("--store", "DIR", store,
                "Where packed weights and plans are kept [$STOKER_STORE, else stoker/ in "
                "$XDG_CACHE_HOME or in "
                "~/.cache]");
}

void add_weight_options(OptionParser& parser, WeightOptions* options) {
  add_store_option(parser, &options->store);
  parser.off_flag("--no-pack", &options->pack,
                  "Keep nothing: pack the weights in memory at each start");
  const std::string usual = options->verify == Verify::kFull ? "full" : "background";
  parser.choice(
      "--verify", {"background", "full"},
      [options](size_t mode) { options->verify = static_cast<Verify>(mode); },
      "Hold packed weights against their digests while the model answers, where damage ends it, or "
      "before [" +
          usual + "]");
}

void add_speculation_option(OptionParser& parser, SpeculationOptions* options) {
  parser.checked_option(
      "--speculative-config", "auto|off|JSON",
      [options](const std::string& text) {
        const auto read = parse_speculative_config(text);
        if (!read) return read.error().message;
        *options = *read;
        return std::string();
      },
      "Drafts, which change no answer: where the checkpoint has a draft head and they pay, never, "
      "or as said, e.g. '{\"method\":\"dspark\",\"num_speculative_tokens\":5}' [auto]");
}

void add_replay_option(OptionParser& parser, BoundedReplay* replay) {
  parser.choice(
      "--bounded-replay", {"off", "exact", "compact"},
      [replay](size_t mode) { *replay = static_cast<BoundedReplay>(mode); },
      "Which rows of a prompt run the layers after the last KV source; exact has the bits "
      "of off, compact is faster and has others [exact]");
}

void add_memory_options(OptionParser& parser, EngineOptions* options) {
  parser.option("--max-num-seqs", "N", &options->max_num_seqs,
                "Requests that run at the same time; others wait [256]");
  parser.option("--max-num-batched-tokens", "N", &options->max_num_batched_tokens,
                "Tokens of one step at most [1024]");
  parser.bytes("--kv-budget", &options->kv_budget_bytes,
               "Memory for the state of all requests and the prefix cache [a half of what is left "
               "beside the weights]");
  parser.bytes("--image-budget", &options->image_budget_bytes,
               "Of it, for places where a cached prefix can be taken up [an eighth]");
  parser.off_flag("--no-enable-prefix-caching", &options->prefix_caching,
                  "Compute every prompt in full");
  add_replay_option(parser, &options->bounded_replay);
}

void add_engine_options(OptionParser& parser, EngineOptions* options) {
  parser.group("Memory and scheduling");
  parser.count("--max-model-len", &options->max_model_len,
               "Tokens of a prompt and its answer together, also 128k or 1M [the checkpoint's "
               "context]");
  add_memory_options(parser, options);
  parser.option(
      "--prefix-cache-retention-interval", "N", &options->image_interval,
      "Tokens between places where a cached prefix can be taken up, a multiple of 128; 0: "
      "at ends of prompts and answers alone [512]");
  parser.choice(
      "--scheduling-policy", {"fcfs", "priority"},
      [options](size_t policy) { options->use_priorities = policy == 1; },
      "In the order of arrival, or of the requests' priority first [fcfs]");
  parser.group("Computing");
  add_speculation_option(parser, &options->speculation);
  add_threads_option(parser, &options->num_threads);
  add_weight_options(parser, &options->weights);
  options->tune_seconds = kStartTuneSeconds;  // these commands run long
  parser.off_flag("--no-tune", &options->tune,
                  "Kernels as built in; else as stoker tune measured them, or where it never did a "
                  "first start does, within 3 seconds");
}

void add_served_names_option(OptionParser& parser, std::vector<std::string>* names) {
  parser.option(
      "--served-model-name", "NAME", names,
      "What clients call the model; may be given several times [the last part of its path]");
}

void add_generation_options(OptionParser& parser, GenerationOptions* options) {
  parser.option("--max-tokens", "N", &options->max_tokens,
                "Tokens to choose at most [what the context holds]");
  parser.option("--temperature", "T", &options->sampling.temperature,
                "0 takes the likeliest token each time [the checkpoint's]");
  parser.option("--top-p", "P", &options->sampling.top_p,
                "Only the likeliest tokens that together reach P; 1 is off");
  parser.option("--top-k", "K", &options->sampling.top_k, "Only the K likeliest tokens; 0 is off");
  parser.option("--min-p", "P", &options->sampling.min_p,
                "Only tokens at least P times as likely as the likeliest; 0 is off");
  parser.option("--repetition-penalty", "R", &options->sampling.repetition_penalty,
                "Divides the logits of tokens that the prompt or the answer has; 1 is off");
  parser.option("--presence-penalty", "P", &options->sampling.presence_penalty,
                "Taken from the logits of tokens that the answer has, -2 to 2 [0]");
  parser.option("--frequency-penalty", "P", &options->sampling.frequency_penalty,
                "The same, once for each time that it has them [0]");
  parser.option("--seed", "N", &options->sampling.seed,
                "The same seed gives the same answer [drawn]");
  add_speculation_option(parser, &options->speculation);
  add_threads_option(parser, &options->num_threads);
  add_weight_options(parser, &options->weights);
}

void log_warning(LogLevel level, std::string_view line) {
  if (level < LogLevel::kWarning) return;
  std::fprintf(stderr, "stoker: %.*s\n", static_cast<int>(line.size()), line.data());
}

Result<std::unique_ptr<Engine>> open_engine(const std::string& model, EngineOptions options) {
  LoadingProgress progress;
  options.progress = [&progress, also = std::move(options.progress)](const Progress& now) {
    progress.update(now);
    if (also) also(now);
  };
  if (!options.log) options.log = log_warning;
  return Engine::open(model, options);
}

std::vector<Finish> run_to_end(Stream& stream, InterruptGuard* guard,
                               const std::function<void(const Event&)>& on_event) {
  std::vector<Finish> finishes(static_cast<size_t>(stream.num_choices()));
  for (size_t num_running = finishes.size(); num_running > 0;) {
    if (guard != nullptr && guard->take()) stream.cancel();
    const std::optional<Event> event = stream.wait(kInterruptPeriod);
    if (!event) continue;
    on_event(*event);
    if (!event->finish) continue;
    finishes[static_cast<size_t>(event->choice)] = *event->finish;
    --num_running;
  }
  return finishes;
}

}  // namespace stoker
