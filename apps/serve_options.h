// The options of `stoker serve`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "server/server.h"
#include "stoker/engine.h"

namespace stoker {

struct ServeOptions {
  std::string model;
  ServerOptions server;
  EngineOptions engine;
  int shutdown_seconds = 30;          ///< for what runs when the signal to stop comes
  std::vector<std::string> warnings;  ///< options that have no effect, and why
};

/// Reads the arguments, a file of options among them, and keys of the environment. Null: go on.
/// Otherwise the command ends with that exit code, and has said why.
std::optional<int> read_serve_options(const Arguments& arguments, ServeOptions* options);

}  // namespace stoker
