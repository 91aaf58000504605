// The state of a long context without the hours that its prompt would take: random records in the
// formats and places that the model writes. A step reads as many of them whatever they hold.
#pragma once

#include <cstdint>

#include "kv/sequence_state.h"

namespace stoker::bench {

/// Makes the state that follows `tokens` tokens, a multiple of all ratios and above those before,
/// for which the state's store has room.
void make_context(SequenceState& state, const KvShape& shape, int64_t tokens);

}  // namespace stoker::bench
