// How much of a file the system has in memory already.
#pragma once

#include <cstdint>
#include <vector>

#include "snapshot/object_mapping.h"

namespace stoker::snapshot {

/// Looks at one page in each of some chunks of a mapped object, spread over all of it, and reads
/// none. Returns those whose page is not in the page cache, ascending, and how many it looked at.
/// Where the system does not tell, all count as cached.
struct CacheSample {
  std::vector<int64_t> cold_chunks;
  int64_t num_looked_at = 0;

  double cached_fraction() const;
};
CacheSample sample_page_cache(const ObjectMapping& mapping, int64_t num_chunks);

}  // namespace stoker::snapshot
