// A snapshot of an engine that runs.
#pragma once

#include "api/loaded_model.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// As Engine::save_snapshot, of the engine of a loaded model, which computes with so many threads.
Result<SavedSnapshot> save_running(Engine& engine, const LoadedModel& loaded, int num_threads,
                                   const SaveSnapshot& what);

}  // namespace stoker
