// The program "stoker": picks the command.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "commands.h"
#include "common.h"
#include "stoker/process.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr Command kCommands[] = {
    {"serve", "answer over HTTP", serve_command},
    {"up", "the same, back from a snapshot in about a second", up_command},
    {"ps", "the servers that run here", ps_command},
    {"down", "end one of them", down_command},
    {"snapshot", "keep, list, check and remove warm engines", snapshot_command},
    {"run-batch", "answer the requests of a file, many at a time", run_batch_command},
    {"chat", "a conversation in the terminal", chat_command},
    {"generate", "answer one prompt", generate_command},
    {"replay", "run answers again from their receipts", replay_command},
    {"pack", "write a model's weights as they are computed with, once", pack_command},
    {"inspect", "what is in a checkpoint, and does it fit here", inspect_command},
    {"tokenize", "text to token ids, or back", tokenize_command},
    {"bench", "how fast a model runs here", bench_command},
    {"tune", "measure which kernels are the fastest here, once", tune_command},
    {"trace", "write down what the model computes, for comparison", trace_command},
};

constexpr const char* kUsage =
    "Usage: stoker COMMAND [MODEL] [OPTIONS]\n\nRuns DeepSeek-V4.1 checkpoints. MODEL is a "
    "checkpoint directory, or the name demo.\n\nCommands:\n";
constexpr const char* kRest =
    "\n  --version  print the version\n  --help     print this; stoker COMMAND --help tells "
    "more\n\n"
    "Examples:\n"
    "  stoker generate demo --user 'What is the capital of France?'\n"
    "  stoker serve demo\n";

int run(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == "--version") {
    std::printf("stoker %s\n", version());
    return 0;
  }
  return run_chosen({"command", kUsage, kCommands, kRest}, arguments);
}

int run_and_catch(const Arguments& arguments) {
  try {
    return run(arguments);
  } catch (const std::bad_alloc&) {
    return report({ErrorCode::kResourceExhausted, "no memory left", ""});
  } catch (const std::exception& error) {
    return report({ErrorCode::kInternal, error.what(), ""});
  }
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  std::signal(
      SIGPIPE,
      SIG_DFL);  // a reader that goes away ends us without a word, whatever our parent ignores
  stoker::install_mapping_guard();
  return stoker::run_and_catch({argv + (argc > 0 ? 1 : 0), argv + argc});
}
