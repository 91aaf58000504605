// What every snapshot has, whether it is made of a checkpoint or of an engine that runs: a canary,
// and a manifest.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "snapshot/manifest.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// Asks the engine of a loaded model the prompts of a canary, compares a second run with the first,
/// and puts prompts and answers into the store. `limit`: of each run. Errors: those of make_canary,
/// check_canary and the store.
Result<snapshot::Section> put_canary(const snapshot::Store& store, const LoadedModel& loaded,
                                     Engine& engine, std::chrono::milliseconds limit);

/// The parts of a model that is loaded from a checkpoint, with the weights that it maps and, where
/// they are kept, the plans for so many threads; no canary. Sections in no order. Errors: those of
/// put_model_parts.
Result<std::vector<snapshot::Section>> put_sections(const snapshot::Store& store,
                                                    const LoadedModel& loaded,
                                                    const StoreWork& work);

/// Of these sections, of this host and now. An empty name: that of the model.
snapshot::Manifest manifest_of(const LoadedModel& loaded, const std::string& name,
                               std::vector<snapshot::Section> sections);

}  // namespace stoker
