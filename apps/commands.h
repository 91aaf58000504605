// The commands of the program, and how one of several is picked. Each takes its own arguments and
// returns the exit code of the process.
#pragma once

#include <span>
#include <string>

#include "options.h"

namespace stoker {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);
};

/// What the first argument picks from.
struct CommandMenu {
  const char* kind;   ///< what one is called in an error, "command"
  std::string usage;  ///< the help before the list
  std::span<const Command> commands;
  std::string rest;  ///< the help behind it
};

/// Runs what the first argument names with those behind it, or prints the help: to stdout for
/// --help, else to stderr with exit code 2.
int run_chosen(const CommandMenu& menu, const Arguments& arguments);

int pack_command(const Arguments& arguments);
int inspect_command(const Arguments& arguments);
int generate_command(const Arguments& arguments);
int replay_command(const Arguments& arguments);
int chat_command(const Arguments& arguments);
int tokenize_command(const Arguments& arguments);
int trace_command(const Arguments& arguments);
int serve_command(const Arguments& arguments);
int ps_command(const Arguments& arguments);
int down_command(const Arguments& arguments);
int up_command(const Arguments& arguments);
int snapshot_command(const Arguments& arguments);
int run_batch_command(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int tune_command(const Arguments& arguments);

}  // namespace stoker
