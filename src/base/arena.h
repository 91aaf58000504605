// Memory that is taken piece by piece and given back all at once: what one step needs, without an
// allocation in the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace stoker {

class WorkerPool;

/// Not thread-safe; movable, and pieces stay where they are. Pieces are aligned to 64 bytes, the
/// first one to 2 MiB; memory that was not given out before is zero. Pieces are not initialised
/// again; they stay valid until the arena is wound back past them.
class Arena {
 public:
  /// Memory that is there, and touched, from the start. More is allocated when it is asked for, and
  /// kept.
  explicit Arena(int64_t bytes);
  /// The same; all threads of the pool touch it, which for much memory is most of the time.
  Arena(int64_t bytes, WorkerPool& pool);

  template <class T>
  std::span<T> take(int64_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    return {reinterpret_cast<T*>(take_bytes(count * static_cast<int64_t>(sizeof(T)))),
            static_cast<size_t>(count)};
  }

  /// A place to wind back to.
  struct Mark {
    size_t chunk = 0;
    int64_t used = 0;
  };
  Mark mark() const { return {chunk_, used_}; }
  void wind_back(Mark mark);

  /// Times that memory had to be allocated since the start.
  int64_t num_growths() const { return static_cast<int64_t>(chunks_.size()) - 1; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> memory;
    int64_t bytes = 0;
  };
  static Chunk allocate(int64_t bytes, WorkerPool* pool);  // may be null: the caller touches it
  std::byte* take_bytes(int64_t bytes);

  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // that pieces come from
  int64_t used_ = 0;  // of it
};

/// Winds an arena back when it goes.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.wind_back(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace stoker
