// config.json: whatever is taken leads to an inventory whose sizes are positive and can be added
// up.
#include "checkpoint/config.h"

#include <cstdlib>
#include <string_view>

#include "checkpoint/inventory.h"

namespace {

// Walking a model of millions of experts is allowed, but nothing to wait for here.
constexpr int64_t kMaxWalkedExperts = 20'000;

void add_size(const stoker::TensorSpec& tensor, int64_t& total) {
  int64_t size = 4;
  for (const int64_t dim : tensor.shape) {
    if (dim <= 0 || __builtin_mul_overflow(size, dim, &size)) std::abort();
  }
  if (__builtin_add_overflow(total, size, &total)) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = stoker::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  for (int32_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    if (config->index_source_of(layer) < config->kv_source_of(layer)) std::abort();
  }
  const int64_t num_experts =
      int64_t{config->num_hidden_layers} * config->n_routed_experts +
      int64_t{config->num_nextn_predict_layers} * config->dspark_n_routed_experts;
  if (num_experts > kMaxWalkedExperts) return 0;
  int64_t total = 0;
  stoker::visit_weights(*config, nullptr, [&](const stoker::WeightSpec& spec) {
    add_size(stoker::values_of(spec), total);
    if (const auto scales = stoker::scales_of(spec)) add_size(*scales, total);
  });
  return 0;
}
