// The commands of the program. Each takes its own arguments and returns the exit code of the
// process.
#pragma once

#include "options.h"

namespace stoker {

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
