// Number formats and records against tests/data/arith, and each code against its definition.
#include "tensor/formats.h"

#include <gtest/gtest.h>

#include "base/worker_pool.h"
#include "support/golden.h"
#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace stoker {
namespace {

using testing::GoldenFile;
using testing::same_bits;

class Formats : public ::testing::Test {
 protected:
  // Records hold exactly what the reference's fake_* functions leave.
  template <class Encode, class Decode>
  void expect_records(const std::string& name, int64_t record_bytes, Encode encode, Decode decode) {
    const auto x = golden_.f32(name + ".x");
    std::vector<float> out(x.size());
    std::vector<uint8_t> record(static_cast<size_t>(record_bytes));
    for (size_t at = 0; at < x.size(); at += 32) {
      encode(x.data() + at, 32, record.data());
      decode(record.data(), 32, out.data() + at);
    }
    EXPECT_TRUE(same_bits(out, golden_.f32(name + ".out"))) << name;
  }

  GoldenFile golden_{"tests/data/arith/arith.safetensors"};
  FlushDenormals flush_;
};

TEST_F(Formats, WindowRecord) {
  expect_records("fake_fp8", window_record_bytes(32), encode_window, decode_window);
}
TEST_F(Formats, IndexRecord) {
  expect_records("fake_fp4_ue8m0", index_record_bytes(32), encode_index, decode_index);
}
TEST_F(Formats, LatentRecord) {
  expect_records("fake_fp4_e4m3", latent_record_bytes(32), encode_latent, decode_latent);
}

TEST_F(Formats, RecordSizesOfTheReleasedModel) {
  EXPECT_EQ(window_record_bytes(512), 528);
  EXPECT_EQ(latent_record_bytes(512), 288);
  EXPECT_EQ(index_record_bytes(128), 68);
}

TEST_F(Formats, Bf16) {
  std::vector<float> out;
  for (const float x : golden_.f32("bf16.x")) out.push_back(bf16_round(x));
  EXPECT_TRUE(same_bits(out, golden_.f32("bf16.out")));
  EXPECT_TRUE(std::isnan(bf16_round(std::numeric_limits<float>::quiet_NaN())));
}

TEST_F(Formats, E4m3ValuesAndTheirCodes) {
  const auto expected = golden_.f32("e4m3.out");  // 0 in place of NaN
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_decode(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_TRUE(same_bits({{value}}, {{expected[static_cast<size_t>(code)]}}));
    EXPECT_EQ(e4m3_encode(value), code);
  }
}

TEST_F(Formats, NearestE4m3TiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = e4m3_decode(static_cast<uint8_t>(code));
    const float high = e4m3_decode(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;  // exact
    EXPECT_EQ(e4m3_encode(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(e4m3_encode(std::nextafter(middle, 1e9F)), code + 1);
    EXPECT_EQ(e4m3_encode(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(e4m3_encode(-middle), e4m3_encode(middle) | 0x80);
  }
  EXPECT_EQ(e4m3_encode(1e9F), 0x7E);
}

TEST_F(Formats, Ue8m0IsTheSmallestPowerOfTwoAtLeast) {
  EXPECT_EQ(ue8m0_at_least(1.0F), 127);
  EXPECT_EQ(ue8m0_at_least(std::nextafter(1.0F, 2.0F)), 128);
  EXPECT_EQ(ue8m0_at_least(std::numeric_limits<float>::infinity()), 255);
  for (int byte = 1; byte < 255; ++byte)
    EXPECT_EQ(ue8m0_decode(static_cast<uint8_t>(byte)), std::ldexp(1.0F, byte - 127));
  EXPECT_TRUE(std::isnan(ue8m0_decode(255)));
}

TEST_F(Formats, ABlockThatIsNotFiniteReadsAsNan) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    float x[64] = {};
    x[40] = bad;
    uint8_t record[128];
    float out[64];
    encode_window(x, 64, record);
    decode_window(record, 64, out);
    EXPECT_TRUE(std::isnan(out[40]));
    EXPECT_EQ(out[0], 0.0F);
    encode_latent(x, 64, record);
    decode_latent(record, 64, out);
    EXPECT_TRUE(std::isnan(out[40]));
    encode_index(x, 64, record);
    decode_index(record, 64, out);
    EXPECT_TRUE(std::isnan(out[40]));
  }
}

TEST(DType, NamesAndShapes) {
  EXPECT_EQ(dtype_of("F8_E8M0"), DType::kF8E8M0);
  EXPECT_FALSE(dtype_of("F16"));
  EXPECT_EQ(dtype_info(DType::kI64).size_bytes, 8);
  EXPECT_EQ(to_string(Shape{48, 160}), "[48, 160]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Weight, RowsOfAndDecodeRowFindTheirScales) {
  std::vector<uint8_t> codes(64 * 64, 0x38);  // 1.0
  std::vector<uint8_t> scales = {127, 128, 129, 130};
  const Weight tile{WeightFormat::kFp8Tile, 64, 64, codes.data(), scales.data()};
  float row[64];
  decode_row(tile, 33, row);
  EXPECT_EQ(row[31], 4.0F);
  EXPECT_EQ(row[32], 8.0F);
  decode_row(rows_of(tile, 32, 32), 1, row);
  EXPECT_EQ(row[0], 4.0F);
  std::vector<uint8_t> nibbles(2 * 32, 0x42);  // 1, 2, 1, 2, ...
  const Weight group{WeightFormat::kFp4Group, 2, 64, nibbles.data(), scales.data()};
  decode_row(group, 1, row);
  EXPECT_EQ(row[0], 4.0F);
  EXPECT_EQ(row[1], 8.0F);
  EXPECT_EQ(row[33], 16.0F);
  decode_row(rows_of(group, 1, 1), 0, row);
  EXPECT_EQ(row[33], 16.0F);
}

}  // namespace
}  // namespace stoker
