#include "snapshot/page_cache.h"

#include <sys/mman.h>

#include <algorithm>

#include "snapshot/chunk_table.h"

namespace stoker::snapshot {
namespace {

// A call for each takes a millisecond or two together.
constexpr int64_t kMaxSamples = 4096;

// Of a page whose contents nobody asked for: the first of a chunk may be there for its header.
bool is_cached(const uint8_t* page) {
  unsigned char is_there = 0;
  return ::mincore(const_cast<uint8_t*>(page), 1, &is_there) != 0 || (is_there & 1) != 0;
}

}  // namespace

double CacheSample::cached_fraction() const {
  if (num_looked_at == 0) return 1;
  return 1 - static_cast<double>(cold_chunks.size()) / static_cast<double>(num_looked_at);
}

CacheSample sample_page_cache(const ObjectMapping& mapping, int64_t num_chunks) {
  CacheSample sample;
  const int64_t stride = std::max<int64_t>(1, num_chunks / kMaxSamples);
  const auto size = static_cast<int64_t>(mapping.bytes().size());
  for (int64_t chunk = 0; chunk < num_chunks; chunk += stride) {
    const ChunkRange range = chunk_range(chunk, size);
    const int64_t middle = range.offset + range.bytes / 2 / 4096 * 4096;
    ++sample.num_looked_at;
    if (!is_cached(mapping.bytes().data() + middle)) sample.cold_chunks.push_back(chunk);
  }
  return sample;
}

}  // namespace stoker::snapshot
