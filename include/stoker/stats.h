// Numbers of a running engine, for people and for whoever serves metrics. Plain values.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

/// A distribution: counts[i] of the values were at most bounds[i] (and above the bound before it);
/// the last count has those above all bounds.
struct Histogram {
  std::vector<double> bounds;
  std::vector<int64_t> counts;  ///< one more than bounds
  int64_t count = 0;
  double sum = 0;
};

/// Each number is exact at some moment of the call, not all at the same one. Totals only grow.
struct EngineStats {
  // Now.
  int64_t num_running = 0;
  int64_t num_waiting = 0;        ///< preempted ones too
  int64_t num_blocks = 0;         ///< of all memory for growing state; a block has block_tokens
  int64_t num_blocks_used = 0;    ///< by sequences that run
  int64_t num_blocks_cached = 0;  ///< beside these, kept for prefixes
  int64_t block_tokens = 0;
  int32_t sleep_level = -1;          ///< asked for by Engine::sleep; -1: it is awake
  bool has_released_memory = false;  ///< nothing runs any more, and the memory is given back
  int64_t num_images = 0;            ///< positions at which a prefix can be taken up
  int64_t max_prefill_rows = 0;      ///< the latest bound on prefill rows in a step that decodes

  // Since the start.
  int64_t total_steps = 0;
  int64_t total_prefill_rows = 0;
  int64_t total_decode_rows = 0;
  int64_t total_prompt_tokens = 0;  ///< of requests that began
  int64_t total_cached_tokens = 0;  ///< of these, taken from the prefix cache
  int64_t total_tokens = 0;         ///< chosen
  int64_t total_preemptions = 0;
  int64_t total_stopped = 0;  ///< requests that ended by a token, by repeating, by length, ...
  int64_t total_repeated = 0;
  int64_t total_length = 0;
  int64_t total_cancelled = 0;
  int64_t total_failed = 0;

  // Drafts. A round drafts for one sequence.
  int64_t total_draft_rounds = 0;
  int64_t total_drafted_tokens = 0;
  int64_t total_verified_tokens = 0;  ///< of these, rows of a step
  int64_t total_accepted_tokens = 0;  ///< of these, chosen
  std::vector<int64_t> accepted_at;   ///< of these, the first of a round, the second, ...
  /// Times that drafts were switched off because they were expected to cost more than they give,
  /// and because they were seen to.
  int64_t total_switched_off_predicted = 0;
  int64_t total_switched_off_measured = 0;

  Histogram queue_seconds;        ///< from submission to the first step
  Histogram first_token_seconds;  ///< from submission to the first token
  Histogram token_seconds;        ///< between two tokens of a request
  // Of a sequence that ended by a token or by length.
  Histogram request_prompt_tokens;
  Histogram request_tokens;             ///< chosen
  Histogram request_max_tokens;         ///< that could have been chosen
  Histogram request_seconds;            ///< from submission to the last token
  Histogram request_prefill_seconds;    ///< from its first step to the first token
  Histogram request_decode_seconds;     ///< from the first token to the last
  Histogram request_inference_seconds;  ///< both
  Histogram request_token_seconds;      ///< mean time between two tokens, of at least two

  Histogram step_seconds;
  Histogram step_rows;
  Histogram step_tokens;
  Histogram verified_drafts;  ///< of a round
  Histogram draft_seconds;    ///< the rounds of a step, together
  Histogram verify_seconds;   ///< the rest of such a step
};

}  // namespace stoker
