// A server around an engine, however that is opened.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve_options.h"
#include "stoker/engine.h"

namespace stoker {

/// An engine; or none, and the exit code of what was said about it.
struct Opened {
  std::unique_ptr<Engine> engine;
  int exit_code = 0;
  std::string snapshot = {};  ///< the id of the one that it is from; empty: from a checkpoint
};

/// Opens an engine with these options, whose progress goes to who asks the server.
using EngineOpener = std::function<Opened(const EngineOptions& options)>;

/// Reads the options again; false: they are wrong, which it has said.
using OptionsReader = std::function<bool(ServeOptions* options)>;

/// Listens first, so that clients are told how far the start is; then opens the engine, is found by
/// `stoker ps`, calls `ready`, which may be null, and serves until a signal comes. SIGHUP has it
/// take the keys of the options that `read_again` reads, SIGUSR1 tell the log what it does. SIGUSR2
/// quiesces it: the server ends, and the engine lets go of its files; the next SIGHUP has it come
/// back with all options of the server and the store as they are then. Returns the exit code.
int run_server(ServeOptions options, const EngineOpener& open, const OptionsReader& read_again,
               const std::function<void()>& ready = {});

}  // namespace stoker
