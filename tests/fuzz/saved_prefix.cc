// Any bytes as a saved prefix of a small model. What is taken goes into a cache whose books stay in
// order, and is saved again as what would be taken again.
#include "kv/saved_prefix.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"

namespace stoker {
namespace {

constexpr int32_t kVocab = 1000;

KvShape small_shape() {
  return {.num_rings = 3,
          .num_early_rings = 1,
          .num_draft_rings = 1,
          .max_drafts = 2,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 5,
          .history = 2,
          .sources = {{0, 2}, {1, 1}}};
}

std::unique_ptr<KvStore> small_store(const KvShape& shape) {
  KvPlan plan;
  plan.num_slots = 1;
  plan.num_image_units = 4;
  plan.num_blocks = 4;
  plan.total_bytes = shape.slot_bytes() + plan.num_image_units * shape.image_unit_bytes() +
                     plan.num_blocks * shape.block_bytes();
  return *KvStore::create(shape, plan);
}

void check_books(const KvStore& store, const PrefixCache& cache) {
  std::vector<int32_t> references(static_cast<size_t>(store.plan().num_blocks), 0);
  CHECK(cache.integrity_problem({}, references).empty(), "a cache in order");
  CHECK(store.integrity_problem(references).empty(), "a store in order");
}

void load(const SavedPrefix& saved, const KvShape& shape) {
  static const std::vector<int32_t> token_map(kVocab, 3);
  const auto store = small_store(shape);
  PrefixCache cache(*store, 10);
  const auto loaded = load_prefix(cache, *store, saved, token_map);
  check_books(*store, cache);
  if (!loaded) {
    CHECK(loaded.error().code == ErrorCode::kResourceExhausted, "or it is loaded");
    CHECK(cache.num_nodes() == 0 && cache.num_images() == 0, "nothing half done");
    return;
  }
  std::vector<uint8_t> again;
  const auto num_tokens = save_prefix(cache, *store, saved.ids(), 0, again);
  CHECK(num_tokens && *num_tokens == *loaded, "what was loaded is there");
  CHECK(SavedPrefix::read(again, shape, kVocab).has_value(), "and would be taken again");
}

}  // namespace
}  // namespace stoker

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): of this function only
  KvShape shape = small_shape();
  for (const int32_t early_rings : {1, shape.num_rings}) {
    shape.num_early_rings = early_rings;
    const auto saved = SavedPrefix::read({data, size}, shape, kVocab);
    if (saved) {
      load(*saved, shape);
    } else {
      CHECK(!saved.error().message.empty(), "told");
    }
  }
  return 0;
}
