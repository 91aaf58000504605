// How long a start takes that finds packed weights in the store.
#pragma once

#include <string>

namespace stoker::bench {

/// Adds the row `second_start` for this model, which is packed into the store of that folder.
void add_start_rows(const std::string& model, const std::string& store, int num_threads);

}  // namespace stoker::bench
