// Every tensor of a V4.1 checkpoint in one list: its name, how it is stored, its shape, the part it
// belongs to and its place in ModelWeights. What a checkpoint must hold, and where it goes, is said
// here and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/weights.h"
#include "tensor/dtype.h"

namespace stoker {

/// A weight that the model has.
struct WeightSpec {
  std::string name;  ///< of its values in the checkpoint
  WeightFormat format = WeightFormat::kBf16;
  int64_t rows = 0;  ///< 1 for a vector
  int64_t cols = 0;
  bool is_vector = false;    ///< its shape in the file is [cols]
  bool f32_allowed = false;  ///< stored as bf16 or f32: the header says which
  bool may_be_absent = false;
  Weight* place = nullptr;  ///< null where only names are asked for
};

/// A tensor in a file.
struct TensorSpec {
  std::string name;
  std::vector<DType> dtypes;  ///< any of them
  Shape shape;
};

/// Calls `visit` for every weight of the model, in reading order. With `weights`, they are resized
/// for the model and each spec has its place in them; null: no places. Source: docs/formats.md,
/// tools/reference/make_checkpoint.py.
void visit_weights(const ModelConfig& config, ModelWeights* weights,
                   const std::function<void(const WeightSpec&)>& visit);

/// The tensor of a weight's values, and that of its scales where its format has them.
TensorSpec values_of(const WeightSpec& spec);
std::optional<TensorSpec> scales_of(const WeightSpec& spec);

/// The part that a tensor of this name belongs to, for people: "routed experts", "vision (unused)",
/// ...; "unknown".
const char* part_of(std::string_view name);

/// Whether a tensor of this name may be in a checkpoint though nothing uses it: vision, and what a
/// draft head shares with the backbone.
bool is_unused(std::string_view name);

}  // namespace stoker
