// An object that comes from elsewhere: what it must be is known, and each chunk is held against
// its digest before it is written. What arrived stays in tmp/<object>.part/ when its process ends,
// and the next one goes on from there; gc takes what nobody went on with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "snapshot/store.h"

namespace stoker::snapshot {

/// Movable; its store outlives it, and others that bring the same object wait meanwhile. Destroyed
/// before it is placed, it keeps what arrived if it was told to. Used by one thread.
class Arrival {
 public:
  enum class Left { kKept, kRemoved };

  /// `wait` is told while another process brings the same object; `left`: what is to become of
  /// what arrived where not all does. With kKept the good chunks that are there from before count.
  /// Errors: kInvalidArgument for a section beyond its limits, kResourceExhausted where space lacks
  /// (with both numbers), kCancelled, kIo.
  static Result<Arrival> begin(const Store& store, const Section& section, Left left,
                               const WaitSink& wait = {});

  Arrival(Arrival&&) noexcept = default;
  Arrival& operator=(Arrival&&) = delete;
  ~Arrival();

  const Section& section() const { return section_; }
  /// The store has the object: nothing is to be done.
  bool is_there() const { return !file_; }
  /// Whether the chunk table is known, without which no chunk is taken.
  bool has_table() const { return !table_.empty(); }
  /// Of the object, from its beginning: whole chunks.
  int64_t num_bytes() const { return num_bytes_; }
  bool is_whole() const { return num_bytes_ == section_.bytes; }
  /// The size of the chunk that comes next.
  int64_t next_chunk_bytes() const;

  /// Takes the bytes of the chunk table. Errors: kCorruptData for that of another object; kIo.
  Result<void> set_table(const std::string& table);
  /// Takes the next chunk. Errors: kCorruptData with its place where it is not as its table says;
  /// kResourceExhausted, kIo.
  Result<void> add_chunk(Bytes chunk);
  /// Makes a whole object last and puts it in its place. Errors: kIo, kResourceExhausted.
  Result<void> place();

 private:
  Arrival(const Store& store, Section section, Left left, KeyLock lock);
  Result<void> open_folder(const Store& store);
  Result<void> go_on();
  Result<void> reserve() const;
  std::string folder_name() const;

  const StoreFolders* folders_;
  Section section_;
  Left left_;
  KeyLock lock_;
  std::optional<Folder> folder_;
  std::optional<Descriptor> file_;
  std::vector<uint64_t> table_;
  int64_t num_bytes_ = 0;
};

/// Whether this is the table of a section. Error: kCorruptData.
Result<void> check_table(const Section& section, std::string_view table);

/// Removes what arrived and was never placed. For who holds the lock on changes alone. Returns how
/// many objects that were.
int remove_left_arrivals(const StoreFolders& folders);

}  // namespace stoker::snapshot
