// The made checkpoint tests/data/small as packed weights, for tests below the api room.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/packed_weights.h"
#include "support/golden.h"

namespace stoker::testing {

class SmallModel {
 public:
  SmallModel() {
    auto opened =
        Checkpoint::open(std::string(STOKER_SOURCE_DIR) + "/tests/data/small/checkpoint", 1);
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return;
    }
    checkpoint_ = std::make_unique<Checkpoint>(*std::move(opened));
    WorkerPool pool(1);
    packed_ = std::make_unique<PackedWeights>(PackedWeights::make(checkpoint_->weights(), pool));
    const GoldenFile golden("tests/data/small/golden/golden.safetensors");
    for (const int64_t token_class : golden.i64("token_map"))
      token_map_.push_back(static_cast<int32_t>(token_class));
    token_map_.resize(static_cast<size_t>(config().vocab_size));
  }

  const ModelConfig& config() const { return checkpoint_->config(); }

  Replay replay(ReplayMode mode) const {
    const auto made = make_replay(config(), mode);
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }

  /// Borrows from this.
  Model model(const Replay& replay = {}) const {
    return *Model::create(config(), packed_->weights(), token_map_, replay);
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<PackedWeights> packed_;
  std::vector<int32_t> token_map_;
};

/// For a few sequences, with images.
inline std::unique_ptr<KvStore> store_for(const Model& model, int32_t max_num_seqs = 4) {
  const KvShape shape = model.state_shape();
  return *KvStore::create(shape, *plan_kv(shape, {.bytes = int64_t{16} << 20,
                                                  .max_num_seqs = max_num_seqs,
                                                  .prefix_cache = true}));
}

}  // namespace stoker::testing
