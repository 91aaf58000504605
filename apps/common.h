// What several commands share: ends with an error, inputs, the options of a generation, and running
// one to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "signals.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// What MODEL means, for --help.
inline constexpr const char* kModelHelp = "a checkpoint directory, or the name demo";

/// Prints "stoker: message" on standard error; returns the exit code of the error.
int report(const Error& error);

/// Writes a whole result to standard output; returns the exit code of that.
int print_result(std::string_view text);

/// All of a file. Errors: kNotFound, kIo.
Result<std::string> read_file(const std::string& path);

/// All of standard input. Errors: kIo.
Result<std::string> read_standard_input();

/// Whole numbers separated by white space or commas. `what` names the source in messages. Errors:
/// kInvalidArgument.
Result<std::vector<int32_t>> parse_ids(std::string_view text, const std::string& what);

/// How a command samples. Declared by one function, so that all commands spell the options alike.
struct GenerationOptions {
  SamplingParams sampling;
  std::optional<int32_t> max_tokens;
  int num_threads = 0;
  WeightOptions weights;
  SpeculationOptions speculation;
};
void add_generation_options(OptionParser& parser, GenerationOptions* options);
void add_threads_option(OptionParser& parser, int* num_threads);
void add_store_option(OptionParser& parser, std::string* store);

/// Where packed weights are kept, and when they are checked.
void add_weight_options(OptionParser& parser, WeightOptions* options);

/// How the engine of a command with many requests works: threads, memory, steps.
void add_engine_options(OptionParser& parser, EngineOptions* options);

void add_speculation_option(OptionParser& parser, SpeculationOptions* options);

/// --bounded-replay.
void add_replay_option(OptionParser& parser, BoundedReplay* replay);

/// How much memory the state of requests has, and how it is spent.
void add_memory_options(OptionParser& parser, EngineOptions* options);

/// The names that requests may call the model by.
void add_served_names_option(OptionParser& parser, std::vector<std::string>* names);

/// A LogSink for commands that are not servers: warnings and errors, on standard error.
void log_warning(LogLevel level, std::string_view line);

/// Opens a model, telling on standard error how far it is once that takes more than two seconds;
/// warnings of the library go there too. A progress sink of the options is called as well.
Result<std::unique_ptr<Engine>> open_engine(const std::string& model, EngineOptions options);

/// Hands each event of a stream to `on_event` until the last one, and returns the finish of each
/// choice. An interrupt that the guard noted cancels the stream; it still ends with its last
/// events.
std::vector<Finish> run_to_end(Stream& stream, InterruptGuard* guard,
                               const std::function<void(const Event&)>& on_event);

}  // namespace stoker
