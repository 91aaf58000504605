// Packed weights as bytes: what is written is read back for the same weights, and nothing else is.
#include "model/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

class PackedWeightsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = Checkpoint::open(testing::kSmallCheckpoint, 1);
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::make_unique<Checkpoint>(*std::move(opened));
    bytes_ = packed(checkpoint_->weights(), 2);
  }
  static void TearDownTestSuite() { checkpoint_.reset(); }

  static std::vector<uint8_t> packed(const ModelWeights& weights, int num_threads) {
    WorkerPool pool(num_threads);
    const PackedLayout layout = PackedLayout::of(weights, pool);
    std::vector<uint8_t> bytes(static_cast<size_t>(layout.bytes()));
    const auto sink = [&bytes](int64_t offset, Bytes part) -> Result<void> {
      std::copy(part.begin(), part.end(), bytes.begin() + offset);
      return {};
    };
    EXPECT_TRUE(layout.pack(pool, sink, {}));
    return bytes;
  }

  static std::string refusal(const std::vector<uint8_t>& bytes) {
    const auto layout = PackedLayout::read(bytes, checkpoint_->weights());
    if (layout) return "";
    EXPECT_EQ(layout.error().code, ErrorCode::kCorruptData);
    return layout.error().message;
  }

  static size_t header_bytes() {
    return static_cast<size_t>(PackedLayout::header_bytes(checkpoint_->weights()));
  }

  static std::unique_ptr<Checkpoint> checkpoint_;
  static std::vector<uint8_t> bytes_;
};
std::unique_ptr<Checkpoint> PackedWeightsTest::checkpoint_;
std::vector<uint8_t> PackedWeightsTest::bytes_;

std::vector<float> values(const Weight& weight) {
  std::vector<float> out(static_cast<size_t>(weight.rows * weight.cols));
  for (int64_t row = 0; row < weight.rows; ++row)
    decode_row(weight, row, out.data() + row * weight.cols);
  return out;
}

TEST_F(PackedWeightsTest, WhatIsReadBackHasTheValuesOfTheCheckpoint) {
  const auto layout = PackedLayout::read(bytes_, checkpoint_->weights());
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->bytes() % (2 << 20), 0);
  ModelWeights before = checkpoint_->weights();
  ModelWeights after = layout->weights_in(bytes_.data());
  std::vector<Weight> expected;
  for_each_matrix(before, [&](Weight& weight, bool /*parts*/) { expected.push_back(weight); });
  size_t next = 0;
  int num_packed = 0;
  for_each_matrix(after, [&](Weight& weight, bool /*parts*/) {
    const Weight& from = expected[next++];
    if (!is_packed(weight.format)) return;
    ++num_packed;
    ASSERT_EQ(values(weight), values(from)) << "matrix " << next - 1;
  });
  EXPECT_GT(num_packed, 300);
}

TEST_F(PackedWeightsTest, BytesDoNotDependOnTheNumberOfThreads) {
  EXPECT_EQ(packed(checkpoint_->weights(), 3), bytes_);
}

// The head is looked at in full, of each entry one byte of each number.
TEST_F(PackedWeightsTest, EveryPartOfTheHeaderIsBelievedOnlyIfItFits) {
  for (size_t at = 0; at < header_bytes(); at += at < 32 ? 1 : 8) {
    std::vector<uint8_t> bytes = bytes_;
    bytes[at] ^= 1;
    EXPECT_NE(refusal(bytes), "") << "byte " << at;
  }
}

TEST_F(PackedWeightsTest, WhatIsCutOrLongerIsRefused) {
  std::vector<uint8_t> bytes = bytes_;
  bytes.push_back(0);
  EXPECT_NE(refusal(bytes).find("size"), std::string::npos);
  for (const size_t size :
       {bytes_.size() - 1, header_bytes(), header_bytes() - 1, size_t{31}, size_t{0}}) {
    bytes.resize(size);
    EXPECT_NE(refusal(bytes), "") << size << " bytes";
  }
}

TEST_F(PackedWeightsTest, AnotherVersionIsTold) {
  std::vector<uint8_t> bytes = bytes_;
  bytes[8] = 99;
  EXPECT_EQ(refusal(bytes), "packed weights: version: expected 1, found 99");
}

TEST_F(PackedWeightsTest, AnotherModelIsRefused) {
  const auto demo = Checkpoint::open(testing::kDemoCheckpoint, 2);
  ASSERT_TRUE(demo) << demo.error().message;
  EXPECT_NE(refusal(packed(demo->weights(), 2)), "");
}

// A scale that has no packed form leaves its matrix where it is, and the header says so.
TEST_F(PackedWeightsTest, WhatCannotBePackedStaysInTheCheckpoint) {
  ModelWeights weights = checkpoint_->weights();
  Weight& matrix = weights.layers[0].attn.wq_a;
  ASSERT_EQ(matrix.format, WeightFormat::kFp8Tile);
  const std::vector<uint8_t> scales(static_cast<size_t>(matrix.rows * matrix.cols), 250);
  matrix.scale = scales.data();
  const std::vector<uint8_t> bytes = packed(weights, 1);
  EXPECT_NE(bytes, bytes_);
  const auto layout = PackedLayout::read(bytes, weights);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->weights_in(bytes.data()).layers[0].attn.wq_a.data, matrix.data);
}

TEST_F(PackedWeightsTest, TheErrorOfASinkEndsThePacking) {
  WorkerPool pool(2);
  const PackedLayout layout = PackedLayout::of(checkpoint_->weights(), pool);
  for (const int64_t good : {0, 1, 50}) {
    std::atomic<int64_t> num_calls{0};
    const auto packed = layout.pack(pool,
                                    [&](int64_t /*offset*/, Bytes /*part*/) -> Result<void> {
                                      if (num_calls++ < good) return {};
                                      return Error{ErrorCode::kResourceExhausted, "no room", ""};
                                    },
                                    {});
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().message, "no room");
    EXPECT_LE(num_calls, good + 2) << "nobody goes on";
  }
}

}  // namespace
}  // namespace stoker
