// The container: what is written reads back, and every way to lie in a header is found.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checkpoint.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::HasSubstr;

// A file with this header text and so many bytes of data.
std::string file_with(const std::string& header, size_t data_bytes) {
  std::string image;
  append_le<uint64_t>(image, header.size());
  return image + header + std::string(data_bytes, '\x11');
}

TEST(Safetensors, WritesWhatItReads) {
  const std::string a = "\x01\x02\x03\x04";
  const std::string b = "12345678";
  const std::string image = serialize_safetensors({{"b", DType::kI64, {1}, bytes_of(b)},
                                                   {"a", DType::kBF16, {2, 1}, bytes_of(a)},
                                                   {"none", DType::kF32, {0, 7}, {}},
                                                   {"scalar", DType::kF32, {}, bytes_of(a)}});
  EXPECT_EQ(load_le<uint64_t>(bytes_of(image).data()) % 8, 0U);
  const auto tensors = parse_safetensors(bytes_of(image), "file");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4U);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].view.dtype, DType::kI64);
  EXPECT_EQ((*tensors)[1].name, "a");
  EXPECT_EQ((*tensors)[1].view.shape, (Shape{2, 1}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>((*tensors)[1].view.data), 4), a);
  EXPECT_EQ((*tensors)[2].view.size_bytes, 0);
  EXPECT_EQ((*tensors)[3].view.size_bytes, 4);
}

TEST(Safetensors, AHeadAloneTellsOfDataThatIsNotThere) {
  std::vector<NamedTensor> tensors = {
      {"a", {DType::kBF16, {2, 3}, nullptr, 12}},
      {"b", {DType::kI8, {int64_t{1} << 40}, nullptr, int64_t{1} << 40}}};
  const std::string head = safetensors_head(tensors);
  const auto read = parse_safetensors_head(bytes_of(head), "head");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[1].name, "b");
  EXPECT_EQ((*read)[1].view.size_bytes, int64_t{1} << 40);
  EXPECT_EQ((*read)[1].view.data, nullptr);
  EXPECT_FALSE(parse_safetensors(bytes_of(head), "whole"));
  EXPECT_FALSE(parse_safetensors_head(bytes_of(head + "x"), "more"));
  EXPECT_FALSE(parse_safetensors_head(bytes_of(head.substr(0, 7)), "less"));
}

TEST(Safetensors, DataBeginsWhereItIsAskedTo) {
  const std::string head = safetensors_head({{"a", {DType::kI8, {4}, nullptr, 4}}}, 4096);
  EXPECT_EQ(head.size(), 4096U);
  const auto read = parse_safetensors(bytes_of(head + "1234"), "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)[0].view.size_bytes, 4);
}

TEST(Safetensors, OrderIsThatOfTheData) {
  const auto tensors = parse_safetensors(
      bytes_of(file_with(
          R"({"z": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]}, "__metadata__": {"format": "pt"},
                             "y": {"dtype": "I8", "shape": [3], "data_offsets": [0, 3]}}   )",
          5)),
      "file");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].name, "y");
  EXPECT_EQ((*tensors)[1].name, "z");
}

struct BadHeader {
  const char* header;
  size_t data_bytes;
  const char* message;
};

constexpr BadHeader kBadHeaders[] = {
    {"", 0, "header: not JSON"},
    {"[]", 0, "header: expected a JSON object"},
    {"{", 0, "header: not JSON"},
    {"{} {}", 0, "header: not JSON"},
    {R"({"a": 3})", 0, "a: expected an object of dtype, shape and data_offsets, found 3"},
    {R"({"a": {"dtype": "U8", "shape": [1]}})", 1,
     "a: expected an object of dtype, shape and data_offsets"},
    {R"({"a": {"dtype": "U8", "shape": [1], "offsets": [0, 1]}})", 1,
     "a: expected the key data_offsets"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "x": 1}})", 1,
     "a: expected an object of"},
    {R"({"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})", 2, "found \"F16\""},
    {R"({"a": {"dtype": 3, "shape": [1], "data_offsets": [0, 2]}})", 2, "a dtype of this engine"},
    {R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1, "shape"},
    {R"({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}})", 1, "shape"},
    {R"({"a": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}})", 1, "shape"},
    {R"({"a": {"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 1]}})", 1,
     "at most 8 integers"},
    {R"({"a": {"dtype": "U8", "shape": [9223372036854775808], "data_offsets": [0, 1]}})", 1,
     "shape"},
    {R"({"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 1]}})", 1,
     "fits 63 bits"},
    {R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0,
     "fits 63 bits"},
    {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 1]}})", 1,
     "expected 2 bytes of data for U8 [2]"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1,
     "within the 1 bytes of data"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [-1, 0]}})", 1, "data_offsets"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0]}})", 1, "data_offsets"},
    {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})", 1,
     "within the 1 bytes of data"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [9223372036854775806, 9223372036854775807]}})",
     1, "within the 1 bytes of data"},
    {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
         "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})",
     3, "b: expected its data to begin at 2"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
         "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})",
     1, "they overlap"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
         "b": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]}})",
     3, "a gap"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})", 2, "a gap"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", 2,
     "expected 1 bytes of data"},
    {R"({})", 1, "expected 0 bytes of data, as the header says, found 1"},
    {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
         "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
     2, "the key \"a\" is there twice"},
    {R"({"a": {"dtype": "U8", "dtype": "I8", "shape": [1], "data_offsets": [0, 1]}})", 1,
     "is there twice"},
    {R"({"__metadata__": 3})", 0, "__metadata__: expected an object of strings"},
    {R"({"__metadata__": {"a": 1}})", 0, "__metadata__: expected an object of strings"},
    {R"({"a": {"dtype": "U8", "shape": [[[[1]]]], "data_offsets": [0, 1]}})", 1,
     "nested deeper than"},
    {"{\"\xFF\": 1}", 0, "header: not JSON"},
};

TEST(Safetensors, RefusesBadHeaders) {
  for (const BadHeader& row : kBadHeaders) {
    SCOPED_TRACE(row.header);
    const auto tensors = parse_safetensors(bytes_of(file_with(row.header, row.data_bytes)), "file");
    if (tensors) {
      ADD_FAILURE() << "taken";
      continue;
    }
    EXPECT_EQ(tensors.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(tensors.error().message, AllOf(HasSubstr("file"), HasSubstr(row.message)));
  }
}

TEST(Safetensors, RefusesHeaderLengthsBeyondTheFile) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX}) {
    std::string image;
    append_le<uint64_t>(image, length);
    image += "{}";
    const auto tensors = parse_safetensors(bytes_of(image), "file");
    ASSERT_FALSE(tensors) << length;
    EXPECT_EQ(tensors.error().message,
              "file: expected a header of at most 2 bytes, found a header length of " +
                  std::to_string(length));
  }
}

TEST(Safetensors, RefusesHeadersThatAreTooLong) {
  std::string image;
  append_le<uint64_t>(image, 100'000'001);
  image += "{}";
  image.resize(100'000'009, ' ');
  const auto tensors = parse_safetensors(bytes_of(image), "file");
  ASSERT_FALSE(tensors);
  EXPECT_THAT(tensors.error().message, HasSubstr("at most 100000000 bytes"));
}

// A header of values that cost much more memory than text is cut off early.
TEST(Safetensors, RefusesHeadersThatUnfold) {
  std::string header = R"({"a": [)";
  for (int i = 0; i < 100'000; ++i) header += "0,";
  header += "0]}";
  const auto tensors = parse_safetensors(bytes_of(file_with(header, 0)), "file");
  ASSERT_FALSE(tensors);
  EXPECT_THAT(tensors.error().message, HasSubstr("more than 50066 values"));
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole =
      testing::file_text(testing::kSmallCheckpoint + "/model-00002-of-00003.safetensors");
  const size_t header_end = 8 + load_le<uint64_t>(bytes_of(whole).data());
  ASSERT_TRUE(parse_safetensors(bytes_of(whole), "file"));
  std::vector<size_t> sizes{
      0, 1, 7, 8, 9, header_end - 1, header_end, header_end + 1, whole.size() - 1};
  for (size_t i = 1; i < 20; ++i) {
    sizes.push_back(header_end * i / 20);
    sizes.push_back(header_end + (whole.size() - header_end) * i / 20);
  }
  for (const size_t size : sizes) {
    const auto tensors = parse_safetensors(bytes_of(whole).first(size), "file");
    ASSERT_FALSE(tensors) << size;
    EXPECT_EQ(tensors.error().code, ErrorCode::kCorruptData) << size;
    EXPECT_THAT(tensors.error().message, AllOf(HasSubstr("file: "), HasSubstr("expected"))) << size;
  }
}

}  // namespace
}  // namespace stoker
