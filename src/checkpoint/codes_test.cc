// Every code of every kind, at the edges of pieces, with any number of threads.
#include "checkpoint/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>

#include "base/bytes.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class Array {
 public:
  Array(CodeKind kind, DType dtype, Shape shape, std::string bytes)
      : kind_(kind), bytes_(std::move(bytes)) {
    view_ = {dtype, std::move(shape), reinterpret_cast<const uint8_t*>(bytes_.data()),
             static_cast<int64_t>(bytes_.size())};
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  CodeArray get() const { return {kind_, &view_, &name_, &file_}; }
  std::string& bytes() { return bytes_; }

 private:
  CodeKind kind_;
  std::string bytes_;
  std::string name_ = "layers.1.w";
  std::string file_ = "m.safetensors";
  TensorView view_;
};

bool taken(CodeKind kind, DType dtype, const std::string& bytes) {
  const auto count = static_cast<int64_t>(bytes.size()) / dtype_info(dtype).size_bytes;
  const Array array(kind, dtype, {count}, bytes);
  return check_codes({array.get()}, 1, {}).has_value();
}

TEST(Codes, EveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const float scale = std::ldexp(1.0F, byte - 127);
    const bool is_scale = std::isnormal(scale) && byte != 255;
    EXPECT_EQ(taken(CodeKind::kE4m3, DType::kF8E4M3, text), byte != 0x7F && byte != 0xFF) << byte;
    EXPECT_EQ(taken(CodeKind::kE4m3Scale, DType::kF8E8M0, text),
              is_scale && std::isfinite(448 * scale))
        << byte;
    EXPECT_EQ(taken(CodeKind::kE2m1Scale, DType::kF8E8M0, text),
              is_scale && std::isfinite(6 * scale))
        << byte;
  }
}

TEST(Codes, EveryExponentOfBf16AndF32) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if (const uint32_t m = bits & 0x7F; m != 0 && m != 1 && m != 0x40 && m != 0x7F) continue;
    std::string half;
    append_le<uint16_t>(half, static_cast<uint16_t>(bits));
    const uint32_t whole = bits << 16 | 0x1234;
    std::string full;
    append_le<uint32_t>(full, whole);
    ASSERT_EQ(taken(CodeKind::kBf16, DType::kBF16, half),
              std::isfinite(std::bit_cast<float>(bits << 16)))
        << bits;
    ASSERT_EQ(taken(CodeKind::kF32, DType::kF32, full), std::isfinite(std::bit_cast<float>(whole)))
        << bits;
  }
}

TEST(Codes, TellsThePlace) {
  std::string bytes(6 * 5, '\x10');
  bytes[17] = '\xFF';
  const Array array(CodeKind::kE4m3, DType::kF8E4M3, {6, 5}, bytes);
  const auto checked = check_codes({array.get()}, 1, {});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(checked.error().message,
            "layers.1.w: row 3, column 2: expected an e4m3 code that is no NaN, found 0xFF "
            "(m.safetensors)");
}

TEST(Codes, TellsWhatNumber) {
  const auto message = [](CodeKind kind, DType dtype, const std::string& bytes) {
    const Array array(kind, dtype, {1}, bytes);
    const auto checked = check_codes({array.get()}, 1, {});
    return checked ? std::string("taken") : checked.error().message;
  };
  EXPECT_THAT(message(CodeKind::kE4m3Scale, DType::kU8, "\xF7"),
              HasSubstr("a ue8m0 scale from 1 to 246, found 247"));
  EXPECT_THAT(message(CodeKind::kE2m1Scale, DType::kU8, "\xFD"),
              HasSubstr("a ue8m0 scale from 1 to 252, found 253"));
  EXPECT_THAT(message(CodeKind::kBf16, DType::kBF16, "\x81\x7F"),
              HasSubstr("a finite number, found 0x7F81"));
  EXPECT_THAT(message(CodeKind::kF32, DType::kF32, std::string("\0\0\x80\xFF", 4)),
              HasSubstr("found 0xFF800000"));
}

// Pieces are 4 MiB: bad elements at their first and last places, several at a time.
TEST(Codes, FindsTheFirstWithAnyNumberOfThreads) {
  constexpr int64_t kCols = 1 << 20;
  constexpr int64_t kPiece = 4 << 20;
  Array good(CodeKind::kE4m3Scale, DType::kF8E8M0, {3}, "\x01\x7F\xF6");
  Array array(CodeKind::kE4m3, DType::kF8E4M3, {13, kCols}, std::string(13 * kCols, '\x7E'));
  for (const int64_t at :
       {int64_t{0}, kPiece - 1, kPiece, 3 * kPiece - 1, 3 * kPiece, 13 * kCols - 1}) {
    for (const int num_threads : {1, 2, 5}) {
      SCOPED_TRACE(std::to_string(at) + " with " + std::to_string(num_threads));
      array.bytes()[static_cast<size_t>(at)] = '\x7F';
      array.bytes().back() = '\x7F';
      const auto checked = check_codes({good.get(), array.get()}, num_threads, {});
      array.bytes()[static_cast<size_t>(at)] = array.bytes().back() = '\x7E';
      ASSERT_FALSE(checked);
      EXPECT_THAT(checked.error().message,
                  HasSubstr("row " + std::to_string(at / kCols) + ", column " +
                            std::to_string(at % kCols) + ":"));
    }
  }
  EXPECT_TRUE(check_codes({good.get(), array.get()}, 2, {}));
}

TEST(Codes, TellsProgressFromTheCallingThread) {
  const Array array(CodeKind::kE4m3, DType::kF8E4M3, {20 << 20}, std::string(20 << 20, '\0'));
  const auto caller = std::this_thread::get_id();
  std::vector<double> fractions;
  ASSERT_TRUE(check_codes({array.get()}, 3, [&](double fraction) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    fractions.push_back(fraction);
  }));
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_TRUE(check_codes({}, 1, {})) << "nothing to check";
}

}  // namespace
}  // namespace stoker
