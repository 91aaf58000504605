// Drafts: the checkpoint's draft head proposes tokens, and the model verifies several of them in
// one step. They change how soon an answer comes and nothing of the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/result.h"

namespace stoker {

enum class Speculation {
  kAuto,  ///< where the checkpoint has a draft head
  kOff,
  kOn,  ///< open fails without a draft head
};

struct SpeculationOptions {
  Speculation mode = Speculation::kAuto;
  /// Drafted at a time, 1 to the checkpoint's dspark_block_size; none: that many.
  std::optional<int32_t> num_speculative_tokens;
  /// Verify as many drafts as pay by what steps cost here and how often drafts were right, down to
  /// none; false: draft in every step and verify all.
  bool enable_adaptive_verification = true;
};

/// What `--speculative-config` takes: "auto", "off", or a JSON object with vLLM's keys, which turns
/// drafts on: `method` ("dspark"), `num_speculative_tokens`, `enable_adaptive_verification`,
/// `draft_sample_method` and `rejection_sample_method` ("match": others would change answers).
/// Error: kInvalidArgument or kUnsupported, which name the key, the value and what was expected.
Result<SpeculationOptions> parse_speculative_config(const std::string& text);

}  // namespace stoker
