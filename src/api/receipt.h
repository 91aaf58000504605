// How receipts (stoker/receipt.h) begin, and the names of numeric modes.
#pragma once

#include <cstdint>

#include "api/resolve.h"
#include "stoker/receipt.h"

namespace stoker {

// A number that a change of any bit of docs/numerics.md raises.
inline constexpr const char* kReferenceMode = "reference-1";
inline constexpr const char* kCompactMode = "reference-1-compact";  ///< BoundedReplay::kCompact

/// What the receipts of a request's choices have in common: all but the seed and the answer. The
/// request was checked, and its prompt encoded. `max_tokens`: resolved.
Receipt begin_receipt(const Request& request, const EncodedPrompt& prompt, int32_t max_tokens,
                      const ModelInfo& model);

}  // namespace stoker
