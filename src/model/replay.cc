#include "model/replay.h"

#include <algorithm>
#include <string>

namespace stoker {
namespace {

constexpr int64_t kCompactExtraRows = 12;  // twice a draft of 5 and the token before it

Error unsupported(const std::string& why) {
  return {ErrorCode::kUnsupported, "bounded replay: " + why, "bounded_replay"};
}

}  // namespace

Result<Replay> make_replay(const ModelConfig& c, ReplayMode mode) {
  if (mode == ReplayMode::kOff) return Replay{};
  if (c.kv_source_layer_ids.empty()) return unsupported("the model has no KV source");
  const int32_t last = *std::ranges::max_element(c.kv_source_layer_ids);
  const int32_t num_late = c.num_hidden_layers - 1 - last;
  if (num_late == 0) return unsupported("the last layer is a KV source");
  for (int32_t layer = last; layer < c.num_hidden_layers; ++layer) {
    if (c.compress_ratios[static_cast<size_t>(layer)] != 1) {
      return unsupported("expected ratio 1 from the last KV source on, found " +
                         std::to_string(c.compress_ratios[static_cast<size_t>(layer)]) +
                         " in layer " + std::to_string(layer));
    }
    if (layer > last && c.engram_index_of(layer) >= 0) {
      return unsupported("expected no Engram after the last KV source, found it in layer " +
                         std::to_string(layer));
    }
  }
  const int64_t window = c.sliding_window;
  if (mode == ReplayMode::kCompact) return Replay{mode, last, last, window + kCompactExtraRows};
  return Replay{mode, last, last + 1, window + (num_late - 1) * (window - 1)};
}

}  // namespace stoker
