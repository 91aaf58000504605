#include "kv/sequence_state.h"

#include <algorithm>

#include "base/check.h"

namespace stoker {

double KvShape::growing_bytes_per_token() const {
  double bytes = 0;
  for (const Source& source : sources)
    bytes += static_cast<double>(latent_record() + index_record()) / source.ratio;
  return bytes;
}

int64_t KvShape::fixed_bytes() const {
  int64_t bytes =
      int64_t{num_layers} * window * window_record() + history * int64_t{sizeof(int32_t)};
  for (const Source& source : sources)
    bytes += int64_t{source.ratio - 1} * 2 * head_dim * int64_t{sizeof(float)};
  return bytes;
}

SequenceState::SequenceState(const KvShape& shape, int64_t max_tokens)
    : window_record_(shape.window_record()),
      window_(shape.window),
      windows_(static_cast<size_t>(int64_t{shape.num_layers} * shape.window * window_record_)),
      history_(static_cast<size_t>(shape.history), kNoToken) {
  for (const KvShape::Source& source : shape.sources) {
    SourceState& state = sources_.emplace_back();
    state.ratio = source.ratio;
    const auto open = static_cast<size_t>(int64_t{source.ratio - 1} * shape.head_dim);
    state.open_kv.resize(open);
    state.open_gate.resize(open);
    const int64_t entries = max_tokens / source.ratio;
    state.latents.reserve(static_cast<size_t>(entries * shape.latent_record()));
    state.index_keys.reserve(static_cast<size_t>(entries * shape.index_record()));
  }
}

const uint8_t* SequenceState::window_row(int32_t layer, int64_t position) const {
  DCHECK(position >= 0, "positions start at 0");
  return windows_.data() + (int64_t{layer} * window_ + position % window_) * window_record_;
}

uint8_t* SequenceState::window_row(int32_t layer, int64_t position) {
  return const_cast<uint8_t*>(static_cast<const SequenceState*>(this)->window_row(layer, position));
}

int32_t SequenceState::history(int32_t back) const {
  DCHECK(back >= 1 && static_cast<size_t>(back) <= history_.size(), "the history reaches that far");
  return history_[history_.size() - static_cast<size_t>(back)];
}

void SequenceState::push_history(int32_t token_class) {
  if (history_.empty()) return;
  std::rotate(history_.begin(), history_.begin() + 1, history_.end());
  history_.back() = token_class;
}

}  // namespace stoker
