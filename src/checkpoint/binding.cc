#include "checkpoint/binding.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "checkpoint/inventory.h"
#include "checkpoint/json_text.h"

namespace stoker {
namespace {

std::string file_of(const Shards& shards, const StoredTensor& stored) {
  return " (" + shards.names[stored.file] + ")";
}

std::string description(const TensorView& view) {
  return std::string(dtype_info(view.dtype).name) + " " + to_string(view.shape);
}

std::string description(const TensorSpec& spec) {
  std::string text;
  for (const DType dtype : spec.dtypes) {
    text += (text.empty() ? "" : " or ") + std::string(dtype_info(dtype).name);
  }
  return text + " " + to_string(spec.shape);
}

// What must be checked of a tensor; nothing of packed e2m1.
std::optional<CodeKind> codes_of(const WeightSpec& spec, bool is_scale, DType stored) {
  switch (spec.format) {
    case WeightFormat::kBf16:
    case WeightFormat::kF32:
      return stored == DType::kF32 ? CodeKind::kF32 : CodeKind::kBf16;
    case WeightFormat::kFp8Tile:
    case WeightFormat::kFp8Group:
      return is_scale ? CodeKind::kE4m3Scale : CodeKind::kE4m3;
    default:
      break;
  }
  return is_scale ? std::optional(CodeKind::kE2m1Scale) : std::nullopt;
}

// Looks up what the model expects among what the files hold.
class Binder {
 public:
  explicit Binder(const Shards& shards) : shards_(shards), uses_(shards.tensors.size()) {
    for (size_t i = 0; i < shards.tensors.size(); ++i) {
      index_.emplace(shards.tensors[i].tensor.name, i);
    }
  }

  // Notes the stored tensors of this weight, or what is wrong with them.
  void match(const WeightSpec& spec) {
    match(spec, values_of(spec), false);
    if (const auto scales = scales_of(spec)) match(spec, *scales, true);
  }

  // Gives the weight its bytes. Everything was matched without a problem.
  void place(const WeightSpec& spec) const {
    const StoredTensor* values = find(spec.name);
    if (values == nullptr) return;  // may be absent
    const TensorView& view = values->tensor.view;
    *spec.place = {spec.format, spec.rows, spec.cols, view.data, nullptr};
    if (spec.f32_allowed && view.dtype == DType::kF32) spec.place->format = WeightFormat::kF32;
    if (const auto scales = scales_of(spec)) {
      spec.place->scale = find(scales->name)->tensor.view.data;
    }
  }

  // Sorts the stored tensors into used, unused and unexpected.
  void finish(int64_t max_engram_bytes, Binding& binding) {
    const bool tables_checked = table_bytes_ <= max_engram_bytes;
    for (size_t i = 0; i < uses_.size(); ++i) {
      const StoredTensor& stored = shards_.tensors[i];
      const NamedTensor& tensor = stored.tensor;
      const Use& use = uses_[i];
      if (use.is_expected) {
        binding.weight_bytes += tensor.view.size_bytes;
        if (use.codes && (!use.is_table || tables_checked)) {
          binding.codes.push_back(
              {*use.codes, &tensor.view, &tensor.name, &shards_.names[stored.file]});
        }
      } else if (is_unused(tensor.name)) {
        binding.unused.push_back(tensor.name);
      } else {
        problems_.add_corrupt(shown(tensor.name) + ": expected no tensor of this name, found " +
                              description(tensor.view) + file_of(shards_, stored));
      }
    }
    binding.weights.engram_checked = tables_checked;
    binding.problems = std::move(problems_);
  }

 private:
  // Of a stored tensor.
  struct Use {
    bool is_expected = false;
    bool is_table = false;
    std::optional<CodeKind> codes;
  };

  const StoredTensor* find(const std::string& name) const {
    const auto entry = index_.find(name);
    return entry != index_.end() ? &shards_.tensors[entry->second] : nullptr;
  }

  void match(const WeightSpec& spec, const TensorSpec& expected, bool is_scale) {
    const auto entry = index_.find(expected.name);
    if (entry == index_.end()) {
      if (!spec.may_be_absent) {
        problems_.add_corrupt(expected.name + ": expected " + description(expected) +
                              ", found no such tensor (in any file)");
      }
      return;
    }
    const StoredTensor& stored = shards_.tensors[entry->second];
    const TensorView& view = stored.tensor.view;
    Use& use = uses_[entry->second];
    use.is_expected = true;
    use.is_table = spec.format == WeightFormat::kFp8Group;
    use.codes = codes_of(spec, is_scale, view.dtype);
    if (use.is_table) table_bytes_ += view.size_bytes;
    const auto& dtypes = expected.dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end() ||
        view.shape != expected.shape) {
      problems_.add_corrupt(expected.name + ": expected " + description(expected) + ", found " +
                            description(view) + file_of(shards_, stored));
    }
  }

  const Shards& shards_;
  std::vector<Use> uses_;
  std::unordered_map<std::string_view, size_t> index_;
  Problems problems_;
  int64_t table_bytes_ = 0;
};

void cut_groups(const ModelConfig& config, std::vector<BlockWeights>& blocks) {
  for (BlockWeights& block : blocks) {
    for (int64_t group = 0; group < config.o_groups; ++group) {
      block.attn.wo_a_groups.push_back(
          rows_of(block.attn.wo_a, group * config.o_lora_rank, config.o_lora_rank));
    }
  }
}

}  // namespace

Binding bind_weights(const ModelConfig& config, const Shards& shards, int64_t max_engram_bytes) {
  Binding binding;
  Binder binder(shards);
  visit_weights(config, nullptr, [&](const WeightSpec& spec) { binder.match(spec); });
  binder.finish(max_engram_bytes, binding);
  // Only now is it known that the files are large enough for the lists of weights.
  if (binding.problems.empty()) {
    visit_weights(config, &binding.weights, [&](const WeightSpec& spec) { binder.place(spec); });
    cut_groups(config, binding.weights.layers);
    cut_groups(config, binding.weights.mtp.stages);
  }
  return binding;
}

}  // namespace stoker
