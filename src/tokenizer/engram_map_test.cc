// The Engram token map of made and of golden vocabularies.
#include <gtest/gtest.h>

#include <cstring>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

int64_t config_classes(const std::string& path) {
  const Json config = testing::read_source_json(path);
  const Json* text = config.find("text_config");
  const Json* classes = (text != nullptr ? *text : config).find("engram_compressed_vocab_size");
  return classes != nullptr ? classes->as_int().value_or(-1) : -1;
}

// An I64 tensor of a safetensors file: eight bytes of header length, the JSON header, the data.
std::vector<int64_t> read_i64(const std::string& path, const std::string& name) {
  const std::string file = testing::read_source(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const auto header = Json::parse(std::string_view(file).substr(8, header_size));
  const Json& offsets = *header->find(name)->find("data_offsets");
  const size_t begin = 8 + header_size + *offsets.items()[0].as_unsigned();
  const size_t end = 8 + header_size + *offsets.items()[1].as_unsigned();
  std::vector<int64_t> values((end - begin) / sizeof(int64_t));
  std::memcpy(values.data(), file.data() + begin, end - begin);
  return values;
}

TEST(EngramMap, EqualsTheReferenceOnTheSmallTokenizer) {
  const EngramMap map = engram_map(testing::small_tokenizer());
  const auto golden = read_i64("tests/data/small/golden/golden.safetensors", "token_map");
  ASSERT_GE(golden.size(), map.class_of.size());  // the golden one is filled up to vocab_size
  for (size_t id = 0; id < map.class_of.size(); ++id)
    EXPECT_EQ(map.class_of[id], golden[id]) << "id " << id;
  EXPECT_EQ(map.num_classes, config_classes("tests/data/small/checkpoint/config.json"));
}

TEST(EngramMap, CountsTheClassesOfTheDemoTokenizer) {
  const Tokenizer demo = testing::parse_or_die(testing::read_source("models/demo/tokenizer.json"));
  const EngramMap map = engram_map(demo);
  EXPECT_EQ(map.class_of.size(), static_cast<size_t>(demo.size()));
  EXPECT_EQ(map.num_classes, config_classes("models/demo/config.json"));
}

}  // namespace
}  // namespace stoker
