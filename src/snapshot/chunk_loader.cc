#include "snapshot/chunk_loader.h"

#include <chrono>

#include "snapshot/digest.h"

namespace stoker::snapshot {
namespace {

using LoadClock = std::chrono::steady_clock;

constexpr int kBadDigest = -1;  // beside errnos

}  // namespace

double ChunkLoader::run(const std::vector<int64_t>& chunks, int num_threads, const Bring& bring,
                        const Progress& progress) {
  const auto start = LoadClock::now();
  const auto count = static_cast<int64_t>(chunks.size());
  for_each_chunk(count, num_threads, progress,
                 [&](int64_t i, int /*worker*/) { load(chunks[static_cast<size_t>(i)], bring); });
  return std::chrono::duration<double>(LoadClock::now() - start).count();
}

Error ChunkLoader::error() const {
  return code_ == kBadDigest ? file_.chunk_error(first_failed_) : file_.read_error(code_);
}

double ChunkLoader::bring_share() const {
  const auto brought = static_cast<double>(bring_ns_.load());
  const double all = brought + static_cast<double>(verify_ns_.load());
  return all > 0 ? brought / all : 1;
}

void ChunkLoader::load(int64_t chunk_idx, const Bring& bring) {
  // Chunks before a bad one are begun before it: the first of all is found.
  if (chunk_idx > first_failed_) return;
  const ChunkRange range = chunk_range(chunk_idx, file_.section.bytes);
  const auto start = LoadClock::now();
  int code = bring(range);
  const auto brought = LoadClock::now();
  bring_ns_ += (brought - start).count();
  if (code == 0 && verify_) {
    const Bytes chunk =
        memory_.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes));
    const uint64_t expected = file_.table[static_cast<size_t>(chunk_idx)];
    if (chunk_digest(chunk, chunk_idx) != expected) code = kBadDigest;
    verify_ns_ += (LoadClock::now() - brought).count();
  }
  if (code != 0) fail(chunk_idx, code);
}

void ChunkLoader::fail(int64_t chunk_idx, int code) {
  const std::lock_guard lock(mutex_);
  if (chunk_idx >= first_failed_) return;
  first_failed_ = chunk_idx;
  code_ = code;
}

}  // namespace stoker::snapshot
