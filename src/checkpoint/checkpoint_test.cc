// Whole checkpoints: what is in them, in all layouts of files, and every way to spoil one.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "checkpoint/binding.h"
#include "checkpoint/shards.h"
#include "support/checkpoint.h"
#include "tensor/weight.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

using testing::CheckpointCopy;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::json_of;
using testing::named;
using testing::OwnedTensor;

using Tensors = std::vector<OwnedTensor>;

constexpr const char* kIndex = "model.safetensors.index.json";

Result<Checkpoint> open(const std::string& dir) {
  return Checkpoint::open(dir, 2);
}

Checkpoint opened(const std::string& dir) {
  auto checkpoint = open(dir);
  if (!checkpoint) ADD_FAILURE() << checkpoint.error().message;
  return checkpoint ? *std::move(checkpoint) : Checkpoint();
}

// The shard that the index names for a tensor.
std::string shard_of(const CheckpointCopy& copy, const std::string& tensor) {
  const Json index = json_of(copy.text(kIndex));
  const Json* file = index.find("weight_map")->find(tensor);
  if (file == nullptr) ADD_FAILURE() << "not in the index: " << tensor;
  return file != nullptr ? file->as_string() : "";
}

// Writes the index anew for the tensors that are in the shards.
void refresh_index(const CheckpointCopy& copy) {
  Json map = Json::object();
  for (const auto& entry : fs::directory_iterator(copy.dir())) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const OwnedTensor& tensor : testing::tensors_of(entry.path())) {
      map.set(tensor.name, Json::string(entry.path().filename()));
    }
  }
  copy.write(kIndex, Json::object({{"weight_map", std::move(map)}}).dump());
}

// Lets `change` have the tensor.
void edit_tensor(const CheckpointCopy& copy, const std::string& name,
                 const std::function<void(OwnedTensor&)>& change) {
  copy.edit_shard(shard_of(copy, name), [&](Tensors& tensors) { change(named(tensors, name)); });
}

void remove_tensor(const CheckpointCopy& copy, const std::string& name) {
  copy.edit_shard(shard_of(copy, name), [&](Tensors& tensors) {
    std::erase_if(tensors, [&](const OwnedTensor& tensor) { return tensor.name == name; });
  });
  refresh_index(copy);
}

void add_tensor(const CheckpointCopy& copy, const OwnedTensor& tensor) {
  copy.edit_shard("model-00001-of-00003.safetensors",
                  [&](Tensors& tensors) { tensors.push_back(tensor); });
  refresh_index(copy);
}

// ---- what is in one
// ------------------------------------------------------------------------------------------------

TEST(Checkpoint, OpensTheSmallOne) {
  const Checkpoint c = opened(testing::kSmallCheckpoint);
  EXPECT_EQ(c.config().vocab_size, 704);
  EXPECT_EQ(c.weight_bytes(), 2288854);
  EXPECT_TRUE(c.unused().empty());
  EXPECT_TRUE(c.weights().engram_checked);
  EXPECT_EQ(c.generation().temperature, 1.0);
  EXPECT_EQ(c.generation().top_p, 0.95);
  EXPECT_FALSE(c.generation().top_k);
  EXPECT_THAT(c.generation().eos_token_ids, ElementsAre(1));
  ASSERT_TRUE(c.texts().tokenizer);
  EXPECT_EQ(*c.texts().tokenizer,
            testing::file_text(testing::kSmallCheckpoint + "/tokenizer.json"));

  const ModelWeights& w = c.weights();
  ASSERT_EQ(w.layers.size(), 10U);
  ASSERT_EQ(w.mtp.stages.size(), 3U);
  for (int32_t layer = 0; layer < 10; ++layer) {
    SCOPED_TRACE(layer);
    const BlockWeights& block = w.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(block.ffn.experts.size(), 8U);
    EXPECT_TRUE(block.ffn.gate_bias_vl);
    EXPECT_EQ(static_cast<bool>(block.attn.compressor_wkv), layer == 2 || layer == 4 || layer == 6);
    EXPECT_EQ(static_cast<bool>(block.attn.compressor_wgate), layer == 2 || layer == 4);
    EXPECT_EQ(static_cast<bool>(block.attn.indexer_wk), layer == 2 || layer == 4 || layer == 6);
    EXPECT_EQ(static_cast<bool>(block.attn.indexer_wq_b),
              layer == 2 || layer == 4 || layer == 6 || layer == 8);
    EXPECT_EQ(static_cast<bool>(block.engram.embed), layer == 1 || layer == 4);
  }
  for (const BlockWeights& stage : w.mtp.stages) {
    EXPECT_EQ(stage.ffn.experts.size(), 4U);
    EXPECT_FALSE(stage.attn.compressor_wkv || stage.attn.indexer_wq_b || stage.engram.embed);
  }
}

TEST(Checkpoint, OpensTheDemo) {
  const Checkpoint c = opened(testing::kDemoCheckpoint);
  EXPECT_EQ(c.config().hidden_size, 192);
  EXPECT_EQ(c.generation().temperature, 0.0);
  EXPECT_EQ(c.weights().layers.size(), 6U);
  EXPECT_EQ(c.weights().layers[1].engram.embed.rows, 48096);
  EXPECT_EQ(c.weights().mtp.stages.size(), 2U);
}

struct Element {
  Weight weight;
  int64_t row;
  int64_t col;
  float value;
};

// tools/reference/v41/checkpoint.py, dequantise(read_dir("tests/data/small/checkpoint")).
TEST(Checkpoint, ValuesAreThoseOfTheReference) {
  const Checkpoint c = opened(testing::kSmallCheckpoint);
  const ModelWeights& w = c.weights();
  const Weight& expert = w.layers[3].ffn.experts[5].w2;
  const Weight& draft_expert = w.mtp.stages[1].ffn.experts[3].w1;
  const std::vector<Element> elements = {
      {w.embed, 352, 21, 0x1.62p+0F},
      {w.embed, 703, 63, -0x1.5ap-2F},
      {w.layers[0].attn.attn_sink, 0, 1, -0x1.a2332ap-1F},
      {w.layers[0].hc_attn.fn, 23, 255, 0x1.37b8cap-4F},
      {w.layers[0].attn.wq_a, 16, 21, 0x1.ep-6F},
      {w.layers[0].attn.wq_a, 31, 63, -0x1.4p-5F},
      {w.layers[2].attn.compressor_wgate, 32, 21, 0x1.bcp-4F},
      {w.layers[8].attn.indexer_wq_b, 0, 0, -0x1.6p-3F},
      {w.layers[8].attn.indexer_wq_b, 63, 31, 0x1.ep-5F},
      {expert, 0, 0, 0x1p-4F},
      {expert, 32, 21, -0x1p-5F},
      {expert, 63, 63, -0x1p-5F},
      {w.layers[3].ffn.shared_experts.w1, 32, 21, -0x1.4p-3F},
      {w.layers[1].engram.embed, 330, 10, -0x1.ep-3F},
      {w.layers[1].engram.embed, 659, 31, -0x1p-2F},
      {w.layers[4].engram.q_weight, 2, 21, 0x1.2ep+0F},
      {w.mtp.main_proj, 32, 64, 0x1.8p-6F},
      {w.mtp.main_proj, 63, 191, -0x1.cp-6F},
      {draft_expert, 32, 21, 0x1.8p-4F},
      {draft_expert, 63, 63, -0x1p-4F},
      {w.mtp.confidence_head_proj, 0, 95, -0x1.04p-3F},
  };
  for (const Element& e : elements) {
    SCOPED_TRACE(e.value);
    ASSERT_TRUE(e.weight);
    ASSERT_LT(e.row, e.weight.rows);
    ASSERT_LT(e.col, e.weight.cols);
    std::vector<float> row(static_cast<size_t>(e.weight.cols));
    decode_row(e.weight, e.row, row.data());
    EXPECT_EQ(row[static_cast<size_t>(e.col)], e.value);
  }
}

// ---- layouts of files
// ----------------------------------------------------------------------------------------------

TEST(Checkpoint, FolderOfLinks) {
  const CheckpointCopy store;
  const CheckpointCopy links;
  for (const auto& entry : fs::directory_iterator(store.dir())) {
    const std::string name = entry.path().filename();
    links.remove(name);
    fs::create_symlink(fs::relative(entry.path(), links.dir()), links.path(name));
  }
  EXPECT_EQ(opened(links.dir()).weight_bytes(), 2288854);
  store.remove("tokenizer.json");
  EXPECT_EQ(open(links.dir()).error().code, ErrorCode::kNotFound) << "a link that leads nowhere";
}

TEST(Checkpoint, OneFile) {
  const CheckpointCopy copy;
  Tensors all;
  for (const int i : {1, 2, 3}) {
    const std::string name = "model-0000" + std::to_string(i) + "-of-00003.safetensors";
    for (OwnedTensor& tensor : testing::tensors_of(copy.path(name)))
      all.push_back(std::move(tensor));
    copy.remove(name);
  }
  copy.remove(kIndex);
  copy.write("weights.safetensors", testing::image_of(all));
  EXPECT_EQ(opened(copy.dir()).weight_bytes(), 2288854) << "the only file, whatever its name";
  fs::rename(copy.path("weights.safetensors"), copy.path("model.safetensors"));
  EXPECT_EQ(opened(copy.dir()).weight_bytes(), 2288854);
  copy.write("consolidated.safetensors", "junk");
  EXPECT_EQ(opened(copy.dir()).weight_bytes(), 2288854) << "model.safetensors is the one";
}

TEST(Checkpoint, FilesThatMayBeMissing) {
  const CheckpointCopy copy;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    copy.remove(name);
  const Checkpoint c = opened(copy.dir());
  EXPECT_FALSE(c.texts().tokenizer);
  EXPECT_FALSE(c.generation().temperature);
  EXPECT_TRUE(c.generation().eos_token_ids.empty());
}

TEST(Checkpoint, UnusedTensorsAreTakenAndTold) {
  const CheckpointCopy copy;
  add_tensor(copy, {"vision.norm.weight", DType::kBF16, {2}, std::string(4, '\x7F')});
  add_tensor(copy, {"image_start", DType::kBF16, {2}, std::string(4, '\0')});
  add_tensor(copy, {"mtp.0.embed.weight", DType::kBF16, {2}, std::string(4, '\0')});
  const Checkpoint c = opened(copy.dir());
  EXPECT_THAT(c.unused(), ElementsAre("vision.norm.weight", "image_start", "mtp.0.embed.weight"));
  EXPECT_EQ(c.weight_bytes(), 2288854);
}

// Field fault: drafting went on with missing tensors. All or none.
TEST(Checkpoint, WeightsWithoutADraftHeadAreAModelWithout) {
  const CheckpointCopy copy;
  EXPECT_FALSE(opened(copy.dir()).draft_head_missing());
  for (const auto& entry : std::filesystem::directory_iterator(copy.dir())) {
    if (entry.path().extension() != ".safetensors") continue;
    copy.edit_shard(entry.path().filename(), [](std::vector<OwnedTensor>& tensors) {
      std::erase_if(tensors, [](const OwnedTensor& t) { return t.name.starts_with("mtp."); });
    });
  }
  Json index = json_of(copy.text("model.safetensors.index.json"));
  std::vector<Json::Member> kept;
  for (const auto& member : index.find("weight_map")->members()) {
    if (!member.first.starts_with("mtp.")) kept.push_back(member);
  }
  copy.edit_json("model.safetensors.index.json", "weight_map", Json::object(std::move(kept)));
  add_tensor(copy, {"mtp.0.embed.weight", DType::kBF16, {2}, std::string(4, '\0')});
  const Checkpoint c = opened(copy.dir());
  EXPECT_TRUE(c.draft_head_missing());
  EXPECT_EQ(c.config().num_nextn_predict_layers, 0);
  EXPECT_TRUE(c.weights().mtp.stages.empty());
  EXPECT_TRUE(Checkpoint::survey(copy.dir())->problems.empty());

  const CheckpointCopy part;
  remove_tensor(part, "mtp.1.attn.wkv.scale");
  EXPECT_THAT(open(part.dir()).error().message, HasSubstr("mtp.1.attn.wkv.scale"));
}

TEST(Checkpoint, OtherDtypesThatMeanTheSame) {
  const CheckpointCopy copy;
  edit_tensor(copy, "layers.3.ffn.experts.5.w2.weight",
              [](OwnedTensor& t) { t.dtype = DType::kU8; });
  edit_tensor(copy, "layers.3.ffn.experts.5.w2.scale",
              [](OwnedTensor& t) { t.dtype = DType::kU8; });
  edit_tensor(copy, "layers.4.engram.q_weight", [](OwnedTensor& t) {
    t.dtype = DType::kF32;
    t.bytes.assign(t.bytes.size() * 2, '\0');
  });
  const Checkpoint c = opened(copy.dir());
  EXPECT_EQ(c.weights().layers[4].engram.q_weight.format, WeightFormat::kF32);
  EXPECT_EQ(c.weights().layers[4].engram.k_weight.format, WeightFormat::kBf16);
  EXPECT_EQ(c.weights().layers[3].ffn.experts[5].w2.format, WeightFormat::kFp4Group);
}

TEST(Checkpoint, ImageBiasesMayBeMissingWithoutImages) {
  const CheckpointCopy copy;
  remove_tensor(copy, "layers.0.ffn.gate.bias_vl");
  EXPECT_THAT(open(copy.dir()).error().message,
              HasSubstr("layers.0.ffn.gate.bias_vl: expected F32 [8], found no such"));
  copy.edit_json("config.json", "image_token_id", std::nullopt);
  EXPECT_FALSE(opened(copy.dir()).weights().layers[0].ffn.gate_bias_vl);
}

TEST(Checkpoint, ProgressComesToOne) {
  double last = 0;
  const auto c =
      Checkpoint::open(testing::kSmallCheckpoint, 1, [&](double fraction) { last = fraction; });
  ASSERT_TRUE(c);
  EXPECT_EQ(last, 1.0);
}

TEST(Checkpoint, HeadersAloneSayNothingOfTheNumbers) {
  const CheckpointCopy copy;
  edit_tensor(copy, "layers.0.attn.wkv.weight",
              [](OwnedTensor& t) { t.bytes[5] = static_cast<char>(0x7F); });
  auto headers = Checkpoint::open_headers(copy.dir());
  ASSERT_TRUE(headers) << headers.error().message;
  EXPECT_EQ(headers->texts().config, copy.text("config.json"));
  Checkpoint moved = *std::move(headers);
  for (int i = 0; i < 2; ++i) {
    const auto checked = moved.check_codes(2);
    ASSERT_FALSE(checked) << "a failure is not forgotten";
    EXPECT_EQ(checked.error().message, open(copy.dir()).error().message);
  }
  auto good = Checkpoint::open_headers(testing::kSmallCheckpoint);
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->check_codes(2));
  const auto nothing_left = [](double /*fraction*/) { ADD_FAILURE() << "read again"; };
  EXPECT_TRUE(good->check_codes(2, nothing_left));
}

TEST(Checkpoint, LargeEngramTablesAreLeftForLater) {
  const ModelConfig config = opened(testing::kSmallCheckpoint).config();
  const Shards shards = open_shards(testing::kSmallCheckpoint);
  constexpr int64_t kTableBytes = (660 + 864) * (32 + 1);
  for (const int64_t max_bytes : {kTableBytes, kTableBytes - 1}) {
    const Binding binding = bind_weights(config, shards, max_bytes);
    const bool is_checked = max_bytes == kTableBytes;
    EXPECT_TRUE(binding.problems.empty());
    EXPECT_EQ(binding.weights.engram_checked, is_checked);
    const auto num_tables =
        std::count_if(binding.codes.begin(), binding.codes.end(), [](const CodeArray& array) {
          return array.name->find("engram.embed") != std::string::npos;
        });
    EXPECT_EQ(num_tables, is_checked ? 4 : 0);
  }
}

// ---- bad files
// -----------------------------------------------------------------------------------------------------

struct Fault {
  const char* what;
  std::function<void(const CheckpointCopy&)> spoil;
  ErrorCode code;
  std::vector<std::string> message;  // parts of it
};

void expect_faults(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    const CheckpointCopy copy;
    fault.spoil(copy);
    const auto checkpoint = open(copy.dir());
    if (checkpoint) {
      ADD_FAILURE() << "taken";
      continue;
    }
    EXPECT_EQ(checkpoint.error().code, fault.code) << checkpoint.error().message;
    for (const std::string& part : fault.message)
      EXPECT_THAT(checkpoint.error().message, HasSubstr(part));
  }
}

constexpr ErrorCode kCorrupt = ErrorCode::kCorruptData;
constexpr ErrorCode kNotFound = ErrorCode::kNotFound;

TEST(BadCheckpoint, NoDirectory) {
  EXPECT_EQ(open("/no/such/place").error().code, kNotFound);
  const auto file = open(testing::kSmallCheckpoint + "/config.json");
  EXPECT_EQ(file.error().code, kNotFound);
  EXPECT_THAT(file.error().message,
              HasSubstr("expected a directory with a checkpoint, found a file"));
  EXPECT_FALSE(Checkpoint::survey("/no/such/place"));
}

TEST(BadCheckpoint, SmallFiles) {
  const std::string deep =
      R"({"text_config": )" + std::string(1000, '[') + std::string(1000, ']') + "}";
  const std::string large = "{\"a\": \"" + std::string(5 << 20, 'x') + "\"}";
  expect_faults({
      {"no config", [](const auto& c) { c.remove("config.json"); }, kNotFound, {"config.json"}},
      {"config cut short",
       [](const auto& c) { c.write("config.json", "{\"a\": "); },
       kCorrupt,
       {"config.json"}},
      {"deep config",
       [&](const auto& c) { c.write("config.json", deep); },
       kCorrupt,
       {"config.json", "nested deeper"}},
      {"large config",
       [&](const auto& c) { c.write("config.json", large); },
       ErrorCode::kInvalidArgument,
       {"config.json", "at most"}},
      {"config of another model",
       [](const auto& c) { c.edit_json("config.json", "model_type", json_of("\"llama\"")); },
       ErrorCode::kUnsupported,
       {"config.json: model_type", "llama"}},
      {"Engram table of other size",
       [](const auto& c) {
         c.edit_json("config.json", "text_config.engram_num_embeddings", json_of("[661, 864]"));
       },
       ErrorCode::kInvalidArgument,
       {"config.json", "engram_num_embeddings[0]: expected 660, the sum of its primes, found 661"}},
      {"generation config",
       [](const auto& c) { c.write("generation_config.json", R"({"top_p": 2})"); },
       ErrorCode::kInvalidArgument,
       {"generation_config.json: top_p"}},
      {"end of text beyond the vocabulary",
       [](const auto& c) { c.write("generation_config.json", R"({"eos_token_id": 704})"); },
       ErrorCode::kInvalidArgument,
       {"from 0 to 703"}},
      {"tokenizer config",
       [](const auto& c) { c.write("tokenizer_config.json", R"({"add_bos_token": true})"); },
       ErrorCode::kUnsupported,
       {"tokenizer_config.json: add_bos_token: expected false, found true"}},
  });
}

TEST(BadCheckpoint, ShardsAndIndex) {
  const auto set = [](const char* name, const char* file) {
    return [=](const CheckpointCopy& c) {
      Json index = json_of(c.text(kIndex));
      Json map = *index.find("weight_map");
      map.set(name, Json::string(file));
      index.set("weight_map", std::move(map));
      c.write(kIndex, index.dump());
    };
  };
  const auto remove_all = [](const CheckpointCopy& c) {
    c.remove(kIndex);
    for (const char* i : {"1", "2", "3"})
      c.remove(std::string("model-0000") + i + "-of-00003.safetensors");
  };
  expect_faults({
      {"no weights",
       remove_all,
       kNotFound,
       {"expected model.safetensors or model.safetensors.index.json"}},
      {"shards without index",
       [](const auto& c) { c.remove(kIndex); },
       kCorrupt,
       {"found 3 files and no index"}},
      {"missing shard",
       [](const auto& c) { c.remove("model-00002-of-00003.safetensors"); },
       kCorrupt,
       {"model-00002-of-00003.safetensors: expected a shard", "found no such file"}},
      {"index is not JSON", [](const auto& c) { c.write(kIndex, "junk"); }, kCorrupt, {kIndex}},
      {"index without map",
       [](const auto& c) { c.write(kIndex, "{}"); },
       kCorrupt,
       {kIndex, "weight_map"}},
      {"index leads out",
       set("norm.weight", "../model.safetensors"),
       kCorrupt,
       {"norm.weight", "../model.safetensors"}},
      {"index names a tensor that is nowhere",
       set("ghost", "model-00001-of-00003.safetensors"),
       kCorrupt,
       {"ghost: expected in model-00001-of-00003.safetensors", "found in no file"}},
      {"index names another shard",
       set("embed.weight", "model-00002-of-00003.safetensors"),
       kCorrupt,
       {"embed.weight: expected in model-00002-of-00003.safetensors",
        "found in model-00001-of-00003.safetensors"}},
      {"tensor that is not in the index",
       [](const auto& c) {
         c.edit_json(
             kIndex, "weight_map",
             Json::object({{"embed.weight", Json::string("model-00001-of-00003.safetensors")}}));
       },
       kCorrupt,
       {"problems", "expected in model.safetensors.index.json too", "more"}},
      {"tensor in two shards",
       [](const auto& c) {
         const OwnedTensor twin =
             testing::tensors_of(c.path("model-00001-of-00003.safetensors")).front();
         c.edit_shard("model-00003-of-00003.safetensors",
                      [&](Tensors& tensors) { tensors.push_back(twin); });
       },
       kCorrupt,
       {"embed.weight: expected in one file, found in model-00001-of-00003.safetensors and "
        "model-00003"}},
      {"shard is a directory",
       [](const auto& c) {
         c.remove("model-00002-of-00003.safetensors");
         fs::create_directory(c.path("model-00002-of-00003.safetensors"));
       },
       ErrorCode::kIo,
       {"model-00002-of-00003.safetensors"}},
      {"empty shard",
       [](const auto& c) { c.write("model-00002-of-00003.safetensors", ""); },
       kCorrupt,
       {"model-00002-of-00003.safetensors: expected a header length"}},
      {"bytes after the data",
       [](const auto& c) {
         c.write("model-00002-of-00003.safetensors",
                 c.text("model-00002-of-00003.safetensors") + "x");
       },
       kCorrupt,
       {"model-00002-of-00003.safetensors: expected", "bytes of data"}},
  });
}

TEST(BadCheckpoint, TensorsThatDoNotFitTheConfig) {
  expect_faults({
      {"missing",
       [](const auto& c) { remove_tensor(c, "layers.3.attn.wq_a.scale"); },
       kCorrupt,
       {"layers.3.attn.wq_a.scale: expected F8_E8M0 or U8 [1, 2], found no such tensor"}},
      {"other dtype",
       [](const auto& c) {
         edit_tensor(c, "layers.3.attn.wq_a.weight", [](OwnedTensor& t) { t.dtype = DType::kI8; });
       },
       kCorrupt,
       {"layers.3.attn.wq_a.weight: expected F8_E4M3 [32, 64], found I8 [32, 64] (model-0000"}},
      {"other shape",
       [](const auto& c) {
         edit_tensor(c, "layers.3.attn.wq_a.weight", [](OwnedTensor& t) { t.shape = {64, 32}; });
       },
       kCorrupt,
       {"layers.3.attn.wq_a.weight: expected F8_E4M3 [32, 64], found F8_E4M3 [64, 32] "
        "(model-0000"}},
      {"flat shape",
       [](const auto& c) {
         edit_tensor(c, "norm.weight", [](OwnedTensor& t) { t.shape = {1, 64}; });
       },
       kCorrupt,
       {"norm.weight: expected BF16 [64], found BF16 [1, 64]"}},
      {"unexpected",
       [](const auto& c) {
         add_tensor(c, {"layers.3.attn.wq_a.weight_scale_inv", DType::kF32, {1}, "1234"});
       },
       kCorrupt,
       {"layers.3.attn.wq_a.weight_scale_inv: expected no tensor of this name, found F32 [1] "
        "(model-00001"}},
      {"one layer more",
       [](const auto& c) {
         c.edit_json("config.json", "text_config.num_hidden_layers", json_of("11"));
         c.edit_json("config.json", "text_config.compress_ratios",
                     json_of("[0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1]"));
       },
       kCorrupt,
       {"layers.10.attn_norm.weight: expected BF16 [64], found no such tensor", "and 58 more"}},
      {"several at once",
       [](const auto& c) {
         remove_tensor(c, "norm.weight");
         edit_tensor(c, "embed.weight", [](OwnedTensor& t) { t.shape = {64, 704}; });
         add_tensor(c, {"odd", DType::kI64, {1}, "12345678"});
       },
       kCorrupt,
       {"3 problems", "norm.weight: expected", "embed.weight: expected",
        "odd: expected no tensor"}},
  });
}

TEST(BadCheckpoint, Codes) {
  const auto set = [](const char* name, size_t at, std::string bytes) {
    return [=](const CheckpointCopy& c) {
      edit_tensor(c, name, [&](OwnedTensor& t) { t.bytes.replace(at, bytes.size(), bytes); });
    };
  };
  expect_faults({
      {"NaN in FP8",
       set("layers.3.attn.wq_a.weight", 64 * 5 + 7, "\x7F"),
       kCorrupt,
       {"layers.3.attn.wq_a.weight: row 5, column 7", "found 0x7F (model-0000"}},
      {"negative NaN in an Engram table",
       set("layers.1.engram.embed.weight", 32 * 659 + 31, "\xFF"),
       kCorrupt,
       {"layers.1.engram.embed.weight: row 659, column 31", "found 0xFF"}},
      {"scale 255",
       set("layers.3.attn.wq_a.scale", 1, "\xFF"),
       kCorrupt,
       {"layers.3.attn.wq_a.scale: row 0, column 1", "from 1 to 246, found 255"}},
      {"scale 0",
       set("layers.3.ffn.experts.5.w2.scale", 3, std::string(1, '\0')),
       kCorrupt,
       {"layers.3.ffn.experts.5.w2.scale: row 1, column 1", "from 1 to 252, found 0"}},
      {"scale that overflows",
       set("layers.1.engram.embed.scale", 0, "\xF7"),
       kCorrupt,
       {"from 1 to 246, found 247"}},
      {"infinity in bf16",
       set("norm.weight", 2, "\x80\x7F"),
       kCorrupt,
       {"norm.weight: row 0, column 1", "0x7F80"}},
      {"NaN in f32",
       set("layers.0.attn.attn_sink", 8, std::string("\1\0\x80\x7F", 4)),
       kCorrupt,
       {"layers.0.attn.attn_sink: row 0, column 2", "0x7F800001"}},
  });
}

TEST(BadCheckpoint, EveryTruncation) {
  const CheckpointCopy copy;
  const std::string name = "model-00002-of-00003.safetensors";
  const std::string whole = copy.text(name);
  const size_t header_end = 8 + load_le<uint64_t>(testing::bytes_of(whole).data());
  for (size_t i = 0; i < 12; ++i) {
    for (const size_t size :
         {header_end * i / 12, header_end + (whole.size() - header_end) * i / 12}) {
      SCOPED_TRACE(size);
      copy.write(name, std::string_view(whole).substr(0, size));
      const auto checkpoint = open(copy.dir());
      ASSERT_FALSE(checkpoint);
      EXPECT_EQ(checkpoint.error().code, kCorrupt);
      EXPECT_THAT(checkpoint.error().message, HasSubstr(copy.dir() + ": " + name));
    }
  }
}

// ---- survey
// --------------------------------------------------------------------------------------------------------

TEST(Survey, AddsUp) {
  const auto survey = Checkpoint::survey(testing::kSmallCheckpoint);
  ASSERT_TRUE(survey);
  EXPECT_TRUE(survey->config);
  EXPECT_THAT(survey->problems, ElementsAre());
  EXPECT_EQ(survey->tensors.size(), 990U);
  const auto total = [&](auto field) {
    return std::accumulate(
        survey->tensors.begin(), survey->tensors.end(), int64_t{0},
        [&](int64_t sum, const TensorSummary& tensor) { return sum + tensor.*field; });
  };
  EXPECT_EQ(total(&TensorSummary::bytes), 2288854);
  const auto& tensors = survey->tensors;
  const auto named_tensor = [&](const char* name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const TensorSummary& t) { return t.name == name; });
  };
  EXPECT_EQ(named_tensor("layers.3.ffn.experts.5.w2.weight").num_parameters, 64 * 64);
  EXPECT_EQ(named_tensor("layers.3.ffn.experts.5.w2.weight").part, "routed experts");
  EXPECT_EQ(named_tensor("layers.3.ffn.experts.5.w2.scale").num_parameters, 0);
  EXPECT_EQ(named_tensor("embed.weight").num_parameters, 704 * 64);
  EXPECT_EQ(named_tensor("layers.0.hc_attn_scale").num_parameters, 3);
}

TEST(Survey, TellsAllProblemsAtOnce) {
  const CheckpointCopy copy;
  copy.write("generation_config.json", "[]");
  copy.write("tokenizer_config.json", "[]");
  remove_tensor(copy, "norm.weight");
  edit_tensor(copy, "embed.weight", [](OwnedTensor& t) { t.shape = {64, 704}; });
  const auto survey = Checkpoint::survey(copy.dir());
  ASSERT_TRUE(survey);
  EXPECT_EQ(survey->problems.size(), 4U);
  EXPECT_THAT(survey->problems, Contains(HasSubstr("norm.weight: expected")));

  copy.write("config.json", "{}");
  copy.remove("model-00003-of-00003.safetensors");
  const auto worse = Checkpoint::survey(copy.dir());
  ASSERT_TRUE(worse);
  EXPECT_FALSE(worse->config);
  EXPECT_THAT(worse->problems, Contains(HasSubstr("config.json: vocab_size")));
  EXPECT_THAT(worse->problems, Contains(HasSubstr("model-00003-of-00003.safetensors")));
  EXPECT_FALSE(worse->tensors.empty()) << "those of the other shards";
}

}  // namespace
}  // namespace stoker
