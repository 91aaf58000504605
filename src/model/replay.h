// Bounded replay: which rows of a prompt run the layers after the last KV source.
//
// Those layers own nothing long-range: what they compute for a row is read only through their
// windows, by the rows just after it. So a prompt's rows far from its end need not run them. The
// gate is a position, the same for every way to cut the prompt into chunks.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "stoker/result.h"

namespace stoker {

enum class ReplayMode {
  kOff,      ///< every row runs every layer
  kExact,    ///< as many rows as it takes to give the bits of kOff
  kCompact,  ///< a window and twelve rows more: faster, and other results; a numeric mode of its
             ///< own
};

/// What a mode means for a model. A value.
struct Replay {
  ReplayMode mode = ReplayMode::kOff;
  int32_t last_source = -1;   ///< the last KV source; -1 with kOff
  int32_t first_late = 0;     ///< first layer whose window rows are left out below the gate
  int64_t num_kept_rows = 0;  ///< rows before the end of a prompt that run all layers

  /// The gate of a prompt whose last wanted row is at `last`: rows from it on run all layers.
  int64_t late_from(int64_t last) const {
    return mode == ReplayMode::kOff || last < num_kept_rows ? 0 : last + 1 - num_kept_rows;
  }
  /// Whether the late rings are exact after the rows before `position`, for a gate at `late_from`.
  /// Never with kCompact, whose rows depend on the gate.
  bool rings_are_exact(int64_t position, int64_t late_from) const {
    if (mode == ReplayMode::kCompact) return false;
    return late_from == 0 || position + 1 >= late_from + num_kept_rows;
  }
};

/// kCompact keeps the window and two verify widths of the released model's drafts; its layers from
/// the last source on see no window row below the gate. kExact keeps W + (n - 1)(W - 1) rows for a
/// window W and n layers after the last source. Error: kUnsupported where layers after the last
/// source compress, are sources or have Engram, or the last source has a ratio other than 1.
Result<Replay> make_replay(const ModelConfig& config, ReplayMode mode);

}  // namespace stoker
