// A server around an engine, however that is opened.
#pragma once

#include <functional>
#include <memory>

#include "serve_options.h"
#include "stoker/engine.h"

namespace stoker {

/// An engine; or none, and the exit code of what was said about it.
struct Opened {
  std::unique_ptr<Engine> engine;
  int exit_code = 0;
};

/// Opens an engine with these options, whose progress goes to who asks the server.
using EngineOpener = std::function<Opened(const EngineOptions& options)>;

/// Listens first, so that clients are told how far the start is; then opens the engine and serves
/// until a signal comes. Returns the exit code.
int run_server(ServeOptions options, const EngineOpener& open);

}  // namespace stoker
