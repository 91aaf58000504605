// What a step shares between its sequences: 64 of them read every weight once, not 64 times.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "api/loaded_model.h"
#include "engine/stepper.h"
#include "support/counted_product.h"

namespace stoker::engine {
namespace {

using testing::ProductCounts;

constexpr int64_t kSequences = 64;

using Names = std::map<const uint8_t*, std::string>;

// The matrices that a step of the backbone multiplies with, but for the routed experts.
Names dense_weights(const ModelConfig& config, const ModelWeights& weights) {
  Names names;
  const auto add = [&names](const Weight& w, const std::string& name) {
    if (w) names[w.data] = name;
  };
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    const BlockWeights& w = weights.layers[layer];
    const std::string at = "layers." + std::to_string(layer) + ".";
    add(w.hc_attn.fn, at + "hc_attn_fn");
    add(w.hc_ffn.fn, at + "hc_ffn_fn");
    add(w.engram.wkv, at + "engram.wkv");
    add(w.attn.wq_a, at + "attn.wq_a");
    add(w.attn.wq_b, at + "attn.wq_b");
    add(w.attn.wkv, at + "attn.wkv");
    for (int64_t group = 0; group < config.o_groups; ++group) {
      add(rows_of(w.attn.wo_a, group * config.o_lora_rank, config.o_lora_rank),
          at + "attn.wo_a, group " + std::to_string(group));
    }
    add(w.attn.wo_b, at + "attn.wo_b");
    add(w.attn.compressor_wkv, at + "attn.compressor.wkv");
    add(w.attn.compressor_wgate, at + "attn.compressor.wgate");
    add(w.attn.indexer_wk, at + "attn.indexer.wk");
    add(w.attn.indexer_wq_b, at + "attn.indexer.wq_b");
    add(w.attn.indexer_weights_proj, at + "attn.indexer.weights_proj");
    add(w.ffn.gate_weight, at + "ffn.gate");
    add(w.ffn.shared_experts.w1, at + "ffn.shared_experts.w1");
    add(w.ffn.shared_experts.w2, at + "ffn.shared_experts.w2");
    add(w.ffn.shared_experts.w3, at + "ffn.shared_experts.w3");
  }
  add(weights.head, "head");
  return names;
}

class WeightVisits : public ::testing::Test {
 protected:
  void start(BoundedReplay replay) {
    stepper_.reset();
    auto loaded =
        LoadedModel::load(STOKER_SOURCE_DIR "/tests/data/small/checkpoint", 1, {}, replay);
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *std::move(loaded);
    auto stepper = Stepper::create(loaded_->model(), 2,
                                   {.max_num_seqs = kSequences, .kv_budget_bytes = 64 << 20});
    ASSERT_TRUE(stepper) << stepper.error().message;
    stepper_ = *std::move(stepper);
    // Lengths of both parities, so that groups of two tokens close in every step.
    for (int64_t i = 0; i < kSequences; ++i) {
      TokenRequest request;
      for (int64_t j = 0; j < 3 + i % 5; ++j)
        request.prompt.push_back(static_cast<int32_t>(20 + (i * 37 + j * 11) % 500));
      request.seed = static_cast<uint64_t>(i);
      request.max_tokens = 20;
      auto sequence = stepper_->sequence_of(
          std::move(request), std::make_shared<TokenStream>(nullptr, std::function<void()>()));
      ASSERT_TRUE(sequence) << sequence.error().message;
      (*sequence)->key.arrival = i;
      stepper_->scheduler().enqueue(*std::move(sequence));
    }
  }

  // The visits of one step, in which all sequences have rows.
  ProductCounts step() {
    testing::count_products(true);
    stepper_->step();
    testing::count_products(false);
    EXPECT_EQ(stepper_->scheduler().running().size(), static_cast<size_t>(kSequences));
    return testing::take_product_counts();
  }

  // Takes what it knows out of `counts`.
  void expect_each_once(ProductCounts& counts) {
    const ModelWeights& weights = loaded_->checkpoint().weights();
    for (const auto& [data, name] : dense_weights(loaded_->checkpoint().config(), weights)) {
      EXPECT_EQ(counts[data], 1) << name;
      counts.erase(data);
    }
    int64_t num_experts = 0;
    for (const BlockWeights& layer : weights.layers) {
      for (const ExpertWeights& expert : layer.ffn.experts) {
        const int64_t visits = counts[expert.w1.data];
        EXPECT_LE(visits, 1) << "an expert of " << num_experts << " others";
        EXPECT_EQ(counts[expert.w2.data], visits);
        EXPECT_EQ(counts[expert.w3.data], visits);
        num_experts += visits;
        for (const Weight& w : {expert.w1, expert.w2, expert.w3}) counts.erase(w.data);
      }
    }
    EXPECT_GT(num_experts, static_cast<int64_t>(weights.layers.size()) * 2)
        << "64 rows of different sequences go to more than two experts a layer";
    EXPECT_TRUE(counts.empty()) << counts.size() << " more matrices than are known";
  }

  std::shared_ptr<const LoadedModel> loaded_;
  std::unique_ptr<Stepper> stepper_;
};

TEST_F(WeightVisits, EachWeightIsReadOnceInAStepOf64Sequences) {
  for (const BoundedReplay replay : {BoundedReplay::kOff, BoundedReplay::kExact}) {
    SCOPED_TRACE(static_cast<int>(replay));
    start(replay);
    ProductCounts prefill = step();
    EXPECT_EQ(stepper_->metrics().total_prefill_rows.get(), 318);
    expect_each_once(prefill);
    for (int i = 0; i < 3; ++i) {
      ProductCounts decode = step();
      expect_each_once(decode);
    }
    EXPECT_EQ(stepper_->metrics().total_decode_rows.get(), 3 * kSequences);
  }
}

}  // namespace
}  // namespace stoker::engine
