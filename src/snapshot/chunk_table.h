// The chunk table of an object: a 64-bit digest for each chunk, so that damage has a place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snapshot/section.h"

namespace stoker::snapshot {

/// Told a fraction of the work from the thread that asked for the work; may be null.
using Progress = std::function<void(double fraction)>;

/// The part of [0, bytes) that a chunk covers.
struct ChunkRange {
  int64_t offset;
  int64_t bytes;
};
ChunkRange chunk_range(int64_t chunk_idx, int64_t object_bytes);

/// Calls work(chunk_idx, worker) once for each of `num_chunks` chunks, begun in ascending order,
/// with `num_threads` (at least 1) threads, the caller's among them; worker is in [0, num_threads).
void for_each_chunk(int64_t num_chunks, int num_threads, const Progress& progress,
                    const std::function<void(int64_t chunk_idx, int worker)>& work);

/// The table of the first `bytes` bytes of an open file. It is read, not mapped: storage that fails
/// is an error here, and no SIGBUS. Holds 4 MiB for each thread. Error: kIo, with `path`.
Result<std::vector<uint64_t>> table_of_file(int fd, int64_t bytes, const std::string& path,
                                            int num_threads, const Progress& progress);

/// The table as its file has it, and back; `bytes` has 8 bytes for each chunk.
std::string table_bytes(const std::vector<uint64_t>& table);
std::vector<uint64_t> parse_table(std::string_view bytes);

}  // namespace stoker::snapshot
