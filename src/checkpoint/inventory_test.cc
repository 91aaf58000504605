// The sizes of the released model, added up from the inventory.
#include "checkpoint/inventory.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/checkpoint.h"

namespace stoker {
namespace {

ModelConfig config_of(const std::string& path) {
  auto config = parse_config(testing::file_text(path));
  if (!config) ADD_FAILURE() << config.error().message;
  return config ? *std::move(config) : ModelConfig();
}

int64_t elements(const TensorSpec& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.shape) count *= dim;
  return count;
}

// Bytes of a weight with its scales.
int64_t bytes(const WeightSpec& spec) {
  const TensorSpec values = values_of(spec);
  int64_t size = elements(values) * dtype_info(values.dtypes.front()).size_bytes;
  if (const auto scales = scales_of(spec)) size += elements(*scales);
  return size;
}

TEST(Inventory, AddsUpToTheReleasedSizes) {
  std::map<std::string, int64_t> part_bytes;
  std::map<std::string, int64_t> part_parameters;
  int64_t total = 0;
  visit_weights(config_of(STOKER_SOURCE_DIR "/tests/data/config/released.json"), nullptr,
                [&](const WeightSpec& spec) {
                  part_bytes[part_of(spec.name)] += bytes(spec);
                  part_parameters[part_of(spec.name)] += spec.rows * spec.cols;
                  total += bytes(spec);
                });
  // docs/formats.md: what the released files hold, without vision (970,536,960 bytes).
  EXPECT_EQ(total, 510'286'023'000 - 970'536'960);
  EXPECT_EQ(part_bytes["routed experts"], 288'777'830'400);
  EXPECT_EQ(part_bytes["Engram tables"], 202'758'032'400);
  EXPECT_EQ(part_bytes["Engram projections"], 315'043'840);
  EXPECT_EQ(part_bytes["embedding"], 1'323'827'200);
  EXPECT_EQ(part_bytes["output head"], 1'323'827'200 + 10'240);
  EXPECT_EQ(part_bytes["draft experts"], 7'219'445'760);
  EXPECT_EQ(part_bytes["draft head"], 713'428'872);
  EXPECT_EQ(part_bytes["attention"] + part_bytes["shared experts"] + part_bytes["routers"] +
                part_bytes["compressors and indexers"] + part_bytes["residual streams and norms"],
            6'884'040'128);
  EXPECT_EQ(part_parameters["routed experts"], int64_t{15'360} * 3 * 5120 * 2304);
  EXPECT_EQ(part_parameters["Engram tables"], (384'006'168 + int64_t{384'016'682}) * 256);
}

TEST(Inventory, SizesOfOneLayer) {
  std::map<std::string, int64_t> group_bytes;
  visit_weights(config_of(STOKER_SOURCE_DIR "/tests/data/config/released.json"), nullptr,
                [&](const WeightSpec& spec) {
                  for (const char* group :
                       {"layers.0.attn.", "layers.0.hc_", "layers.0.ffn.experts.7.",
                        "layers.0.ffn.gate.", "layers.0.ffn.shared", "layers.2.attn.compressor.",
                        "layers.20.attn.compressor.", "layers.2.attn.indexer.k_norm",
                        "layers.2.attn.indexer.wk", "layers.24.attn.indexer."}) {
                    if (spec.name.starts_with(group)) group_bytes[group] += bytes(spec);
                  }
                });
  EXPECT_EQ(group_bytes["layers.0.attn."], 126'743'040);
  EXPECT_EQ(group_bytes["layers.0.hc_"], 3'932'376);
  EXPECT_EQ(group_bytes["layers.0.ffn.experts.7."], 18'800'640);
  EXPECT_EQ(group_bytes["layers.0.ffn.gate."] + group_bytes["layers.0.ffn.shared"], 39'359'232);
  EXPECT_EQ(group_bytes["layers.2.attn.compressor."], 10'486'784);
  EXPECT_EQ(group_bytes["layers.20.attn.compressor."], 5'243'904);
  EXPECT_EQ(group_bytes["layers.2.attn.indexer.k_norm"] + group_bytes["layers.2.attn.indexer.wk"],
            131'328);
  EXPECT_EQ(group_bytes["layers.24.attn.indexer."], 5'575'680);
}

TEST(Inventory, PlacesAreDistinctAndInOrder) {
  const ModelConfig config = config_of(testing::kSmallCheckpoint + "/config.json");
  std::vector<std::string> names;
  visit_weights(config, nullptr, [&](const WeightSpec& spec) {
    names.push_back(spec.name);
    EXPECT_EQ(spec.place, nullptr);
    EXPECT_STRNE(part_of(spec.name), "unknown");
    EXPECT_FALSE(is_unused(spec.name)) << spec.name;
  });
  ModelWeights weights;
  std::set<Weight*> places;
  size_t i = 0;
  visit_weights(config, &weights, [&](const WeightSpec& spec) {
    ASSERT_LT(i, names.size());
    EXPECT_EQ(spec.name, names[i++]);
    EXPECT_TRUE(places.insert(spec.place).second) << spec.name;
  });
  EXPECT_EQ(i, names.size());
  EXPECT_EQ(weights.layers.size(), 10U);
  EXPECT_EQ(weights.mtp.stages.size(), 3U);
}

TEST(Inventory, UnusedNames) {
  for (const char* name :
       {"vision.norm.weight", "aligner.w1.bias", "image_start", "image_end", "image_newline",
        "image_pad", "mtp.0.embed.weight", "mtp.12.head.weight"}) {
    EXPECT_TRUE(is_unused(name)) << name;
  }
  for (const char* name :
       {"mtp.2.markov_head.embed.weight", "mtp.2.markov_head.head.weight", "mtp..embed.weight",
        "mtp.0", "mtp.0.embed.weight.x", "embed.weight", "head.weight", "visions.x", "image"}) {
    EXPECT_FALSE(is_unused(name)) << name;
  }
}

}  // namespace
}  // namespace stoker
