// What a step shares between its sequences: 64 of them read every weight once, not 64 times.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "api/loaded_model.h"
#include "engine/stepper.h"
#include "model/packed_weights.h"
#include "support/watched_kernels.h"
#include "tensor/panels.h"

namespace stoker::engine {
namespace {

using testing::Reads;

constexpr int64_t kSequences = 64;

// Where the panels of a packed matrix begin, or its groups of rows with kF32Parts.
std::vector<const uint8_t*> panels_of(const Weight& w) {
  const int64_t step = w.format == WeightFormat::kF32Parts ? 4 : 1;  // kernels/products.cc
  const int64_t size = packed_size(w.format, 1, w.cols).data;
  std::vector<const uint8_t*> out;
  for (int64_t i = 0; i < num_pack_pieces(w); i += step) out.push_back(w.data + i * size);
  return out;
}

// The packed matrices that a step of the backbone multiplies with, but for the routed experts.
std::vector<Weight> dense_matrices(ModelWeights weights) {
  weights.mtp = {};
  for (BlockWeights& block : weights.layers) block.ffn.experts.clear();
  std::vector<Weight> out;
  for_each_matrix(weights, [&out](const Weight& w, bool /*parts*/) {
    if (is_packed(w.format)) out.push_back(w);
  });
  return out;
}

class WeightVisits : public ::testing::Test {
 protected:
  void start(BoundedReplay replay) {
    stepper_.reset();
    auto loaded = LoadedModel::load(STOKER_SOURCE_DIR "/tests/data/small/checkpoint",
                                    {.bounded_replay = replay});
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *std::move(loaded);
    auto stepper = Stepper::create(loaded_->model(), 2,
                                   {.max_num_seqs = kSequences,
                                    .kv_budget_bytes = 64 << 20,
                                    .kernel_plan = testing::watched_plan()});
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
  Reads step() {
    testing::watch_reads(true);
    stepper_->step();
    testing::watch_reads(false);
    EXPECT_EQ(stepper_->scheduler().running().size(), static_cast<size_t>(kSequences));
    return testing::take_reads();
  }

  // How often every panel of a matrix was read; takes that out of `reads`.
  static int64_t take(Reads& reads, const Weight& w) {
    const std::vector<const uint8_t*> panels = panels_of(w);
    const int64_t times = reads[panels[0]];
    for (const uint8_t* panel : panels) {
      EXPECT_EQ(reads[panel], times);
      reads.erase(panel);
    }
    return times;
  }

  void expect_each_once(Reads& reads) {
    const ModelWeights& weights = loaded_->weights();
    const std::vector<Weight> dense = dense_matrices(weights);
    EXPECT_GT(dense.size(), weights.layers.size() * 12) << "all but what cannot be packed";
    for (const Weight& w : dense) EXPECT_EQ(take(reads, w), 1) << w.rows << " x " << w.cols;
    int64_t num_experts = 0;
    for (const BlockWeights& layer : weights.layers) {
      for (const ExpertWeights& expert : layer.ffn.experts) {
        const int64_t times = take(reads, expert.w1);
        EXPECT_LE(times, 1) << "an expert of " << num_experts << " others";
        EXPECT_EQ(take(reads, expert.w2), times);
        EXPECT_EQ(take(reads, expert.w3), times);
        num_experts += times;
      }
    }
    EXPECT_GT(num_experts, static_cast<int64_t>(weights.layers.size()) * 2)
        << "64 rows of different sequences go to more than two experts a layer";
    EXPECT_TRUE(reads.empty()) << reads.size() << " more panels than are known";
  }

  std::shared_ptr<const LoadedModel> loaded_;
  std::unique_ptr<Stepper> stepper_;
};

TEST_F(WeightVisits, EachWeightIsReadOnceInAStepOf64Sequences) {
  for (const BoundedReplay replay : {BoundedReplay::kOff, BoundedReplay::kExact}) {
    SCOPED_TRACE(static_cast<int>(replay));
    start(replay);
    Reads prefill = step();
    EXPECT_EQ(stepper_->metrics().total_prefill_rows.get(), 318);
    expect_each_once(prefill);
    for (int i = 0; i < 3; ++i) {
      Reads decode = step();
      expect_each_once(decode);
    }
    EXPECT_EQ(stepper_->metrics().total_decode_rows.get(), 3 * kSequences);
  }
}

}  // namespace
}  // namespace stoker::engine
