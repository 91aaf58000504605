// stoker run-batch: the requests of a file to the answers of another, without a server.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "commands.h"
#include "common.h"
#include "run_batch_progress.h"
#include "server/batch.h"
#include "server/line_reader.h"

namespace stoker {
namespace {

/// Lines in the engine at a time: so many that none of its sequences has to wait for one.
constexpr int kMinLinesInFlight = 64;
constexpr int kLinesInFlightPerSequence = 2;
constexpr int kMaxLinesInFlight = 1 << 16;

constexpr const char* kRunBatchExamples =
    "  stoker run-batch demo -i requests.jsonl -o answers.jsonl\n"
    "  stoker run-batch demo -i - -o - < requests.jsonl | gzip > answers.jsonl.gz\n"
    "\nA line of the input:\n"
    "  {\"custom_id\": \"a1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\",\n"
    "   \"body\": {\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of "
    "France?\"}]}}\n"
    "\nThe same command again goes on after an interruption.\n";

struct RunBatchOptions {
  std::string model;
  std::optional<std::string> input, output;
  std::optional<uint64_t> seed;
  bool overwrite = false;
  bool quiet = false;
  BatchOptions batch;
  EngineOptions engine;
};

/// A descriptor to read, closed at the end unless it is standard input.
class Input {
 public:
  static Result<Input> open(const std::string& path) {
    if (path == "-") return Input(STDIN_FILENO);
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) return Input(descriptor);
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, path + ": expected a file to read: " + std::strerror(errno), ""};
  }

  Input(Input&& other) noexcept : descriptor_(std::exchange(other.descriptor_, STDIN_FILENO)) {}
  Input& operator=(Input&&) = delete;
  ~Input() {
    if (descriptor_ != STDIN_FILENO) close(descriptor_);
  }

  int descriptor() const { return descriptor_; }

  /// How many requests a file holds; none for what can be read only once.
  Result<std::optional<int64_t>> count() const {
    struct stat status {};
    const bool is_file =
        descriptor_ != STDIN_FILENO && fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!is_file) return std::optional<int64_t>();
    const Result<int64_t> count = count_lines(descriptor_);
    if (!count) return count.error();
    return std::optional<int64_t>(*count);
  }

 private:
  explicit Input(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

int tell_end(const Result<void>& result, const BatchCounts& counts, bool can_go_on) {
  if (!result && result.error().code == ErrorCode::kCancelled && can_go_on) {
    const std::string hint = "; the same command goes on from here";
    return report({ErrorCode::kCancelled, result.error().message + hint, ""});
  }
  if (!result) return report(result.error());
  if (counts.num_passing == 0) return 0;
  return report({ErrorCode::kResourceExhausted,
                 std::to_string(counts.num_passing) +
                     " requests failed for a reason that may pass; the same command asks again",
                 ""});
}

int run_batch(RunBatchOptions options) {
  const Result<Input> input = Input::open(*options.input);
  if (!input) return report(input.error());
  Result<BatchOutput> output =
      BatchOutput::open({*options.output, options.overwrite, input->descriptor()});
  if (!output) return report(output.error());
  std::optional<int64_t> total;
  if (!options.quiet) {
    const auto counted = input->count();
    if (!counted) return report(counted.error().with(*options.input));
    total = *counted;
  }
  const Result<std::unique_ptr<Engine>> engine = open_engine(options.model, options.engine);
  if (!engine) return report(engine.error());

  const InterruptGuard guard(InterruptGuard::Second::kEndsProcess,
                             InterruptGuard::Signals::kInterruptAndTerminate);
  BatchProgress progress(total);
  options.batch.stop_descriptor = guard.descriptor();
  if (!options.quiet) {
    options.batch.progress = [&](const BatchCounts& counts) { progress.update(counts); };
    options.batch.progress_period = progress.period();
  }
  Batch batch(**engine, input->descriptor(), *output, std::move(options.batch));
  const Result<void> result = batch.run();
  if (!options.quiet) progress.finish(batch.counts(), result.has_value());
  return tell_end(result, batch.counts(), *options.output != "-");
}

}  // namespace

int run_batch_command(const Arguments& arguments) {
  RunBatchOptions options;
  OptionParser parser("run-batch",
                      "Answers the requests of a file, one JSON object a line as OpenAI's batches "
                      "have them, and writes a line for each.",
                      kRunBatchExamples);
  parser.positional("MODEL", &options.model, kModelHelp);
  parser.option("-i,--input", "FILE", &options.input, "The requests; - is standard input");
  parser.option("-o,--output", "FILE", &options.output,
                "The answers; what is there already stays and is not asked again; - is standard "
                "output");
  parser.flag("--overwrite", &options.overwrite, "Begin the output anew, whatever it holds");
  parser.option("--seed", "N", &options.seed,
                "Makes the seeds of requests without one, each from it and the custom_id [0]");
  parser.flag("--quiet", &options.quiet, "Say nothing of how far it is");
  add_served_names_option(parser, &options.batch.served_model_names);
  add_engine_options(parser, &options.engine);
  if (const auto code = parser.parse(arguments)) return *code;
  if (!options.input || !options.output) {
    return parser.refuse(std::string("expected --input and --output, found ") +
                         (options.input    ? "--input alone"
                          : options.output ? "--output alone"
                                           : "neither"));
  }

  // A file beyond a limit on its size is a failed write, which is told, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  options.batch.seed = options.seed.value_or(0);
  options.batch.log = log_warning;
  const int num_seqs = std::min(options.engine.max_num_seqs, kMaxLinesInFlight);
  const int num_lines = std::clamp(kLinesInFlightPerSequence * std::max(num_seqs, 0),
                                   kMinLinesInFlight, kMaxLinesInFlight);
  options.batch.max_in_flight = static_cast<size_t>(num_lines);
  options.engine.max_queue = std::max(options.engine.max_queue, num_lines);
  return run_batch(std::move(options));
}

}  // namespace stoker
