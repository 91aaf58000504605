#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/worker_pool.h"

namespace stoker {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kChunkAlignment = int64_t{2} << 20;  // of a huge page
constexpr int64_t kLeastChunk = int64_t{1} << 20;
constexpr int64_t kTouchedBytes = 8 * kChunkAlignment;  // by one thread at a time

int64_t rounded_up(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

void Arena::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kChunkAlignment});
}

Arena::Arena(int64_t bytes) {
  chunks_.push_back(allocate(std::max(bytes, kAlignment), nullptr));
}

Arena::Arena(int64_t bytes, WorkerPool& pool) {
  chunks_.push_back(allocate(std::max(bytes, kAlignment), &pool));
}

Arena::Chunk Arena::allocate(int64_t bytes, WorkerPool* pool) {
  const auto size = static_cast<size_t>(rounded_up(bytes, kLeastChunk));
  Chunk chunk;
  chunk.memory.reset(
      static_cast<std::byte*>(::operator new (size, std::align_val_t{kChunkAlignment})));
  chunk.bytes = static_cast<int64_t>(size);
  // Only advice: without huge pages all is slower and the same.
  static_cast<void>(::madvise(chunk.memory.get(), size, MADV_HUGEPAGE));
  const auto touch = [&chunk](int64_t begin, int64_t count) {
    std::memset(chunk.memory.get() + begin, 0, static_cast<size_t>(count));
  };
  if (pool == nullptr) {
    touch(0, chunk.bytes);
  } else {
    pool->run((chunk.bytes + kTouchedBytes - 1) / kTouchedBytes, [&](int64_t i, int /*worker*/) {
      const int64_t begin = i * kTouchedBytes;
      touch(begin, std::min(kTouchedBytes, chunk.bytes - begin));
    });
  }
  return chunk;
}

std::byte* Arena::take_bytes(int64_t bytes) {
  CHECK(bytes >= 0, "a size is not negative");
  const int64_t size = rounded_up(bytes, kAlignment);
  while (used_ + size > chunks_[chunk_].bytes) {
    if (chunk_ + 1 == chunks_.size()) {
      chunks_.push_back(allocate(std::max(size, chunks_[0].bytes), nullptr));
    }
    ++chunk_;
    used_ = 0;
  }
  std::byte* out = chunks_[chunk_].memory.get() + used_;
  used_ += size;
  return out;
}

void Arena::wind_back(Mark mark) {
  chunk_ = mark.chunk;
  used_ = mark.used;
}

}  // namespace stoker
