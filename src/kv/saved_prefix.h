// A beginning of a prompt as bytes: its ids, the records of its blocks, and the images at which it
// can be taken up. What another engine of the same model loads, it continues from as from its own
// cache. docs/formats.md has the layout; model and numeric mode are the caller's to compare.
//
// Nothing in it depends on where blocks lie, on threads, or on what else was cached. Only what may
// be read later is in it, not what a ring's other rows happen to hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "kv/prefix_cache.h"
#include "stoker/result.h"

namespace stoker {

/// Saved bytes that can be those of this model: every size fits, and every id is one. A value that
/// borrows the bytes.
class SavedPrefix {
 public:
  /// What the slot is after the first `position` tokens.
  struct Image {
    int64_t position = 0;  ///< a multiple of kBlockTokens
    bool whole = false;    ///< has the late rings, and those of the draft head
    int64_t draft_from = 0;
    const uint8_t* rows = nullptr;  ///< window rows, ring by ring
  };

  /// Looks at all but the records, which may hold any bytes: what is computed from them is then
  /// wrong, and nothing else. Images that an engine of this shape cannot start from, for another
  /// bounded replay, are left out. Errors: kCorruptData, kInvalidArgument for a saved prefix of
  /// other sizes, kUnsupported where no image is left.
  static Result<SavedPrefix> read(Bytes bytes, const KvShape& shape, int64_t vocab_size);

  std::span<const int32_t> ids() const { return ids_; }
  int64_t num_blocks() const { return static_cast<int64_t>(ids_.size()) / kBlockTokens; }
  /// The records of a block, block_records_bytes of the shape.
  const uint8_t* block(int64_t index) const { return blocks_ + index * block_bytes_; }
  /// Ascending by position; at least one.
  const std::vector<Image>& images() const { return images_; }

 private:
  std::vector<int32_t> ids_;
  const uint8_t* blocks_ = nullptr;
  int64_t block_bytes_ = 0;
  std::vector<Image> images_;
};

/// Appends what the cache holds of a beginning of `ids` without a salt, up to the last image in it,
/// to `out`, and returns its number of tokens. Images before the last are saved as far as a
/// continuation might need them: back to one that is whole, or that ends at `gate` or before it.
/// Error: kNotFound where there is no image.
Result<int64_t> save_prefix(PrefixCache& cache, KvStore& store, std::span<const int32_t> ids,
                            int64_t gate, std::vector<uint8_t>& out);

/// Puts it into the cache without a salt; what is there already stays. token_map: Engram's class of
/// each id, for a shape with a history. Between steps: no unit of an image is pending. Returns the
/// number of tokens up to the last image. Error: kResourceExhausted, with what was wanted and
/// found; then nothing has changed.
Result<int64_t> load_prefix(PrefixCache& cache, KvStore& store, const SavedPrefix& saved,
                            std::span<const int32_t> token_map);

}  // namespace stoker
