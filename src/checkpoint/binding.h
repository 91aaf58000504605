// Holds the tensors of the files against those of the model and gives each weight its bytes.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/codes.h"
#include "checkpoint/config.h"
#include "checkpoint/problems.h"
#include "checkpoint/shards.h"
#include "checkpoint/weights.h"

namespace stoker {

/// The outcome. Everything borrows from the shards.
struct Binding {
  ModelWeights weights;          ///< complete if there are no problems, else empty
  Problems problems;             ///< missing, of another dtype or shape, unexpected; kCorruptData
  std::vector<CodeArray> codes;  ///< what remains to be checked, in the order of the files
  std::vector<std::string> unused;  ///< names of tensors that may be there and are not used
  int64_t weight_bytes = 0;         ///< of what is used
};

/// Engram tables are among `codes` if together they have at most `max_engram_bytes`;
/// weights.engram_checked says so.
Binding bind_weights(const ModelConfig& config, const Shards& shards, int64_t max_engram_bytes);

}  // namespace stoker
