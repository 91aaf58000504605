// What the model remembers of one sequence, in the record formats that lose nothing
// (docs/formats.md): window rings, latents and index keys of the KV sources, their open groups, and
// the Engram history. The state has one owner, which passes it to the model's forward calls; the
// model alone reads and writes it.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"

namespace stoker {

/// Sizes that a sequence's state depends on.
struct KvShape {
  int32_t num_layers = 0;
  int32_t head_dim = 0;        ///< multiple of 32
  int32_t index_head_dim = 0;  ///< multiple of 32
  int32_t window = 0;          ///< rows of each ring, the current one included
  int32_t history = 0;  ///< Engram classes kept: the largest n-gram less one; 0 without Engram
  struct Source {
    int32_t layer = 0;
    int32_t ratio = 1;  ///< tokens in a group
  };
  std::vector<Source> sources;  ///< KV sources, ascending by layer

  int64_t window_record() const { return window_record_bytes(head_dim); }
  int64_t latent_record() const { return latent_record_bytes(head_dim); }
  int64_t index_record() const { return index_record_bytes(index_head_dim); }

  /// Bytes that each further token costs on average, all sources together.
  double growing_bytes_per_token() const;
  /// Bytes of a sequence whatever its length.
  int64_t fixed_bytes() const;
};

/// Growing state of one KV source.
struct SourceState {
  int32_t ratio = 1;
  int64_t num_entries = 0;          ///< closed groups
  std::vector<uint8_t> latents;     ///< num_entries latent records
  std::vector<uint8_t> index_keys;  ///< num_entries index records
  int32_t num_open = 0;             ///< tokens of the open group, less than ratio
  std::vector<float> open_kv;       ///< [ratio - 1, head_dim]; the first num_open rows count
  std::vector<float> open_gate;     ///< the same
};

/// State of one sequence. Movable, not copyable: a copy is a named call.
class SequenceState {
 public:
  /// Reserves for `max_tokens`, so that no later step allocates.
  SequenceState(const KvShape& shape, int64_t max_tokens);

  SequenceState(SequenceState&&) noexcept = default;
  SequenceState& operator=(SequenceState&&) noexcept = default;
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  /// Positions that have state: 0 .. length - 1.
  int64_t length() const { return length_; }
  /// The model ran `rows` more positions.
  void advance(int64_t rows) { length_ += rows; }

  /// The window record of a layer at a position: one slot of its ring, which holds the last
  /// `window` positions.
  uint8_t* window_row(int32_t layer, int64_t position);
  const uint8_t* window_row(int32_t layer, int64_t position) const;

  /// The state of the KV source number `source` (not layer).
  SourceState& source(size_t source) { return sources_[source]; }
  const SourceState& source(size_t source) const { return sources_[source]; }

  /// Engram class of the token `back` positions before the end (1 is the last one); kNoToken where
  /// there is none.
  int32_t history(int32_t back) const;
  void push_history(int32_t token_class);

  static constexpr int32_t kNoToken = -1;

 private:
  int64_t window_record_ = 0;
  int32_t window_ = 0;
  int64_t length_ = 0;
  std::vector<uint8_t> windows_;  // [num_layers, window, window_record]
  std::vector<SourceState> sources_;
  std::vector<int32_t> history_;  // oldest first
};

}  // namespace stoker
