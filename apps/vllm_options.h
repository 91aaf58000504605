// The options of vLLM's `serve` that say nothing here, so that its command lines work unchanged.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace stoker {

/// Declares them, out of the sight of --help. Those without a meaning here are taken, and each adds
/// a line to `warnings`, which outlives the parser; those that ask for what is not there are
/// refused with the reason. docs/server.md has their table, which a test holds against this one.
void add_vllm_options(OptionParser& parser, std::vector<std::string>* warnings);

}  // namespace stoker
