// Made checkpoints: their layers, that their bytes follow from the seed alone, and that a forward
// pass over one is finite and uses every expert.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "checkpoint/checkpoint.h"
#include "kv/sequence_state.h"
#include "model/model.h"
#include "model/workspace.h"
#include "support/checkpoint.h"
#include "support/kv.h"
#include "tools/slice_files.h"
#include "tools/slice_weights.h"

namespace stoker::slice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig config_of(const Options& options) {
  const auto json = make_config(options);
  if (!json) ADD_FAILURE() << json.error().message;
  auto config = parse_config(json ? json->dump() : "{}");
  if (!config) ADD_FAILURE() << config.error().message;
  return config ? *std::move(config) : ModelConfig();
}

// A directory of its own, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "slice.XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no directory " << pattern;
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

  // Name -> content of every file.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found[entry.path().filename()] = testing::file_text(entry.path());
    return found;
  }

 private:
  std::string path_;
};

std::map<std::string, std::string> files_of(const Options& options, int num_threads) {
  const Folder folder;
  WorkerPool pool(num_threads);
  const auto written = write_checkpoint(folder.path(), options, pool);
  if (!written) ADD_FAILURE() << written.error().message;
  return folder.files();
}

TEST(SliceConfig, FourLayersPlayEveryRole) {
  for (const Widths widths : {Widths::kSlice, Widths::kTiny}) {
    const ModelConfig c = config_of({.widths = widths});
    EXPECT_THAT(c.compress_ratios, ElementsAre(0, 2, 1, 1));
    EXPECT_THAT(c.kv_source_layer_ids, ElementsAre(1, 2));
    EXPECT_THAT(c.index_source_layer_ids, ElementsAre(1, 2, 3));
    EXPECT_EQ(c.candidate_source_layer_id, 2);
    EXPECT_THAT(c.engram_layer_ids, ElementsAre(0));
    EXPECT_THAT(c.dspark_target_layer_ids, ElementsAre(1, 2, 3));
    EXPECT_EQ(c.n_routed_experts, 16);
    EXPECT_EQ(c.num_nextn_predict_layers, 1);
  }
}

// With the released numbers it is the released model, but for what is said to be smaller.
TEST(SliceConfig, FortyLayersAreTheReleasedOnes) {
  ModelConfig made = config_of({.layers = 40, .experts = 384, .vocab = 129280});
  auto released =
      parse_config(testing::file_text(STOKER_SOURCE_DIR "/tests/data/config/released.json"));
  ASSERT_TRUE(released);
  made.image_token_id = released->image_token_id;
  made.engram_vocab_size = released->engram_vocab_size;
  made.engram_num_embeddings = released->engram_num_embeddings;
  made.engram_compressed_vocab_size = released->engram_compressed_vocab_size;
  made.num_nextn_predict_layers = released->num_nextn_predict_layers;
  made.dspark_noise_token_id = released->dspark_noise_token_id;
  EXPECT_EQ(made, *released);
}

TEST(SliceConfig, EveryNumberOfLayersIsAModel) {
  for (int32_t layers = 4; layers <= 48; ++layers) {
    SCOPED_TRACE(layers);
    EXPECT_EQ(config_of({.widths = Widths::kTiny, .layers = layers}).num_hidden_layers, layers);
  }
}

TEST(SliceConfig, RefusesTooFewLayers) {
  const auto config = make_config({.layers = 3});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("expected 4"));
}

// Pieces of any size make up the same tensor, in every format.
TEST(SliceWeights, PiecesMakeUpTheWhole) {
  for (const auto kind : {Filling::Kind::kBf16, Filling::Kind::kF32, Filling::Kind::kE4m3,
                          Filling::Kind::kE2m1, Filling::Kind::kScale}) {
    const Filling filling{.name = "a.weight", .kind = kind, .deviation = 1, .mean_power = 0.3};
    std::vector<uint8_t> whole(100);
    fill(filling, 1, 0, whole);
    std::vector<uint8_t> pieces(whole.size());
    for (size_t first = 0; first < pieces.size(); first += 24) {
      const size_t size = std::min<size_t>(24, pieces.size() - first);
      fill(filling, 1, static_cast<int64_t>(first), std::span(pieces).subspan(first, size));
    }
    EXPECT_EQ(pieces, whole) << "kind " << static_cast<int>(kind);
    EXPECT_GT(std::set<uint8_t>(whole.begin(), whole.end()).size(), 1U);
  }
}

TEST(SliceFiles, BytesFollowFromTheSeedAlone) {
  const auto one = files_of({.widths = Widths::kTiny, .seed = 5}, 1);
  EXPECT_EQ(one.size(), 4U);
  EXPECT_EQ(one, files_of({.widths = Widths::kTiny, .seed = 5}, 3));
  const auto other = files_of({.widths = Widths::kTiny, .seed = 6}, 1);
  EXPECT_EQ(one.at("config.json"), other.at("config.json"));
  EXPECT_NE(one.at("model-00001-of-00001.safetensors"),
            other.at("model-00001-of-00001.safetensors"));
}

TEST(SliceFiles, TellWhatCannotBeWritten) {
  WorkerPool pool(1);
  const auto written = write_checkpoint("/dev/null/x", {.widths = Widths::kTiny}, pool);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/null/x"));
}

constexpr int32_t kTokens = 256;

std::vector<int32_t> some_ids(int32_t vocab) {
  std::vector<int32_t> ids;
  uint32_t x = 1;
  for (int32_t i = 0; i < kTokens; ++i) {
    x = x * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

// How often each expert of a layer was chosen.
std::vector<int32_t> counts_of(const Trace& trace, int32_t layer, int32_t num_experts) {
  std::vector<int32_t> counts(static_cast<size_t>(num_experts));
  for (const auto& row : trace.integers.at("layers." + std::to_string(layer) + ".routes").rows) {
    for (const int64_t expert : row) ++counts[static_cast<size_t>(expert)];
  }
  return counts;
}

// 256 random tokens: finite logits, every expert of each layer chosen, none more than four times
// as often as the mean.
TEST(SliceModel, RunsAndUsesEveryExpert) {
  const Folder folder;
  WorkerPool pool(2);
  ASSERT_TRUE(
      write_checkpoint(folder.path(), {.widths = Widths::kTiny, .layers = 8, .experts = 32}, pool));
  const auto checkpoint = Checkpoint::open(folder.path(), 2);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const ModelConfig& c = checkpoint->config();
  std::vector<int32_t> token_map(static_cast<size_t>(c.vocab_size));
  std::iota(token_map.begin(), token_map.end(), 0);
  const auto model = Model::create(c, checkpoint->weights(), token_map);
  ASSERT_TRUE(model) << model.error().message;

  const auto store = testing::store_of(model->state_shape(), 1, 0, kTokens / kBlockTokens);
  auto state = SequenceState::create(*store, 1);
  ASSERT_TRUE(state && state->reserve(kTokens));
  const std::vector<int32_t> ids = some_ids(c.vocab_size);
  const Segment segment{&*state, ids};
  const std::vector<int64_t> wanted{kTokens - 2, kTokens - 1};
  std::vector<float> logits(wanted.size() * static_cast<size_t>(c.vocab_size));
  Trace trace;
  Workspace work(c, pool, *kernels::default_plan(), kTokens);
  model->forward(work, {&segment, 1}, wanted, logits.data(), &trace);

  EXPECT_TRUE(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
  const auto [least, most] = std::ranges::minmax(logits);
  EXPECT_LT(most - least, 64) << "a temperature of 1 should leave a choice";
  const int32_t mean = kTokens * c.num_experts_per_tok / c.n_routed_experts;
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::vector<int32_t> counts = counts_of(trace, layer, c.n_routed_experts);
    EXPECT_GT(*std::ranges::min_element(counts), 0) << "layer " << layer;
    EXPECT_LE(*std::ranges::max_element(counts), 4 * mean) << "layer " << layer;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), mean * c.n_routed_experts);
  }
}

}  // namespace
}  // namespace stoker::slice
