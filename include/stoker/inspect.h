// What is in a checkpoint, read from its headers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// A group of tensors that people know by name, such as "routed experts".
struct CheckpointPart {
  std::string name;
  int64_t num_tensors = 0;
  int64_t num_parameters = 0;  ///< scales not counted
  int64_t bytes = 0;           ///< scales counted
};

struct Inspection {
  std::string name;  ///< as ModelInfo
  std::string path;  ///< as ModelInfo
  std::vector<std::pair<std::string, std::string>>
      facts;                          ///< sizes from the config, in reading order: name and value
  std::vector<CheckpointPart> parts;  ///< in reading order; unused ones (vision) included
  std::vector<std::string> problems;  ///< empty for a checkpoint that can be run
  int64_t weight_bytes = 0;           ///< all parts
  int64_t machine_memory_bytes = 0;   ///< that this process may use, its control group respected
  int64_t bytes_per_token = 0;        ///< growing state of a sequence
  int64_t bytes_per_sequence = 0;     ///< its fixed state
  int64_t max_tokens_in_memory = 0;   ///< beside the weights, over all sequences; 0: does not fit
};

/// How an engine would spend a budget of memory on the state of sequences.
struct StatePlan {
  int64_t budget_bytes = 0;
  int64_t total_bytes = 0;     ///< of it in use
  int32_t num_sequences = 0;   ///< that can run at the same time
  int64_t sequence_bytes = 0;  ///< fixed state of each
  int64_t num_blocks = 0;      ///< for what grows
  int64_t block_bytes = 0;
  int32_t block_tokens = 0;
  int64_t num_tokens = 0;         ///< over all sequences
  int64_t num_image_units = 0;    ///< for places where the prefix cache can begin; 0 without it
  int64_t image_unit_bytes = 0;   ///< of each
  int32_t units_of_an_image = 0;  ///< at the end of a prompt or an answer; one in their middle
  int64_t index_bytes = 0;        ///< what the prefix cache knows of the blocks
  int64_t workspace_bytes = 0;    ///< beside the budget: what a step of max_step_rows computes in
  int64_t max_step_rows = 0;      ///< tokens of a step at most
  std::vector<std::pair<int64_t, int64_t>>
      fits;  ///< lengths in tokens, up to the context, and how many sequences of each fit
};

/// What Engine::open would allocate for options.kv_budget_bytes, which is given: the same
/// arithmetic. Reads config.json alone. Errors: those of Engine::open for the config and the
/// options; kInvalidArgument where the budget does not hold one sequence.
Result<StatePlan> plan_state(const std::string& model, const EngineOptions& options);

/// Looks at a checkpoint without running it. A checkpoint with mistakes is no error here: they are
/// its `problems`. Errors: kNotFound, kIo.
Result<Inspection> inspect(const std::string& model);

}  // namespace stoker
