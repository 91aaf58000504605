// The head of a saved prefix: whose it is, and the digest of all behind it. What follows is the kv
// room's (kv/saved_prefix.h); docs/formats.md has the bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// Makes room for the head in front of what is appended next.
void begin_prefix(std::vector<uint8_t>& out);

/// Fills the head, when all behind it is there.
void seal_prefix(std::vector<uint8_t>& out, const ModelInfo& model);

/// What follows the head of undamaged bytes of this model and mode. Borrows. Errors: kCorruptData,
/// kUnsupported for another version, kInvalidArgument naming what differs.
Result<Bytes> open_prefix(Bytes bytes, const ModelInfo& model);

}  // namespace stoker
