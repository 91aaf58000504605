// The options of `stoker serve`, and of `stoker up`, which has them too.
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

/// What `stoker up` takes beside: serve.model is a name here.
struct UpOptions {
  ServeOptions serve;
  bool or_cold = false;        ///< where nothing fits, from the checkpoint; and makes a snapshot
  std::string catalogue = {};  ///< pulls from there what is not here; empty: nowhere
  std::string require_signature = {};  ///< as SnapshotOptions
  bool json = false;                   ///< tells the times of the stages on standard output
  bool detach = false;                 ///< goes on without the terminal once it is ready
  std::string log = {};                ///< then; empty: a file beside what `stoker ps` reads
};

/// The options of the model and the engine in which `now` differs, by name: they cannot change
/// while the process lives.
std::vector<std::string> options_for_a_restart(const ServeOptions& before, const ServeOptions& now);

/// Reads the arguments, a file of options among them, and keys of the environment. Null: go on.
/// Otherwise the command ends with that exit code, and has said why.
std::optional<int> read_serve_options(const Arguments& arguments, ServeOptions* options);
std::optional<int> read_up_options(const Arguments& arguments, UpOptions* options);

}  // namespace stoker
