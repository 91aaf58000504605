// The config.json of a made checkpoint: the released model, or a tiny one, with fewer layers and
// experts, in which every role of a layer is still played.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "stoker/result.h"

namespace stoker::slice {

/// Whose widths a made checkpoint has.
enum class Widths {
  kSlice,  ///< the released ones
  kTiny,   ///< small ones, for tests
};

/// What to make; what is not given is that of the widths.
struct Options {
  Widths widths = Widths::kSlice;
  std::optional<int32_t> layers{};   ///< 4 .. 512 [4]
  std::optional<int32_t> experts{};  ///< routed ones of a layer [16]
  std::optional<int32_t> vocab{};    ///< [4096, tiny 512]
  uint64_t seed = 1;                 ///< of the weights
};

/// The whole config.json. Layers keep the proportions of the released model: window only; ratio 2
/// with up to three KV sources; from the middle on ratio 1 with one KV source, which is the
/// candidate source, and index sources after it; Engram at the last window layer and at the third
/// KV source; one draft stage, which looks at the last three layers. There is no image token and
/// no tokenizer. Errors: kInvalidArgument for a number of layers out of range; what parse_config
/// refuses is not checked here.
Result<Json> make_config(const Options& options);

}  // namespace stoker::slice
