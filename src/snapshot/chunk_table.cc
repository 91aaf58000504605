#include "snapshot/chunk_table.h"

#include <algorithm>
#include <atomic>

#include "base/folder.h"
#include "base/worker_pool.h"

namespace stoker::snapshot {

ChunkRange chunk_range(int64_t chunk_idx, int64_t object_bytes) {
  const int64_t offset = chunk_idx * kChunkBytes;
  return {offset, std::min(kChunkBytes, object_bytes - offset)};
}

void for_each_chunk(int64_t num_chunks, int num_threads, const Progress& progress,
                    const std::function<void(int64_t chunk_idx, int worker)>& work) {
  std::atomic<int64_t> num_done{0};
  WorkerPool pool(
      static_cast<int>(std::min<int64_t>(num_threads, std::max<int64_t>(num_chunks, 1))));
  pool.run(num_chunks, [&](int64_t chunk_idx, int worker) {
    work(chunk_idx, worker);
    const int64_t done = num_done.fetch_add(1, std::memory_order_relaxed) + 1;
    if (worker == 0 && progress) {
      progress(static_cast<double>(done) / static_cast<double>(num_chunks));
    }
  });
}

Result<std::vector<uint64_t>> table_of_file(int fd, int64_t bytes, const std::string& path,
                                            int num_threads, const Progress& progress) {
  std::vector<uint64_t> table(static_cast<size_t>((bytes + kChunkBytes - 1) / kChunkBytes));
  std::atomic<int> failed_errno{0};
  const auto num_chunks = static_cast<int64_t>(table.size());
  std::vector<std::vector<uint8_t>> buffers(static_cast<size_t>(num_threads));
  for_each_chunk(num_chunks, num_threads, progress, [&](int64_t chunk_idx, int worker) {
    std::vector<uint8_t>& buffer = buffers[static_cast<size_t>(worker)];
    const ChunkRange range = chunk_range(chunk_idx, bytes);
    buffer.resize(static_cast<size_t>(range.bytes));
    if (const int code = read_at(fd, range.offset, buffer); code != 0) failed_errno = code;
    table[static_cast<size_t>(chunk_idx)] = chunk_digest(buffer, chunk_idx);
  });
  if (failed_errno != 0) return system_error(path, "cannot be read", failed_errno);
  return table;
}

std::string table_bytes(const std::vector<uint64_t>& table) {
  std::string bytes;
  for (const uint64_t digest : table) append_le(bytes, digest);
  return bytes;
}

std::vector<uint64_t> parse_table(std::string_view bytes) {
  std::vector<uint64_t> table(bytes.size() / sizeof(uint64_t));
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = load_le<uint64_t>(reinterpret_cast<const uint8_t*>(bytes.data()) + 8 * i);
  }
  return table;
}

}  // namespace stoker::snapshot
