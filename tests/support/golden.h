// Reads golden vectors (tests/data, made by tools/reference) in tests, and compares bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace stoker::testing {

/// A trusted safetensors file. A missing file or tensor fails the test and reads as empty.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path_in_source) {
    auto file = MappedFile::open(std::string(STOKER_SOURCE_DIR) + "/" + path_in_source);
    if (!file) {
      ADD_FAILURE() << file.error().message;
      return;
    }
    file_ = *std::move(file);
    const auto length = load_le<uint64_t>(file_.bytes().data());
    const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()) + 8, length);
    auto header = Json::parse(text);
    if (!header) {
      ADD_FAILURE() << header.error().message;
      return;
    }
    header_ = *std::move(header);
    data_ = file_.bytes().data() + 8 + length;
  }

  const Json& header() const { return header_; }

  template <class T>
  std::vector<T> read(const std::string& name) const {
    const Json* entry = header_.find(name);
    if (entry == nullptr) {
      ADD_FAILURE() << "no golden tensor " << name;
      return {};
    }
    const auto& offsets = entry->find("data_offsets")->items();
    const auto begin = static_cast<size_t>(*offsets[0].as_int());
    const auto end = static_cast<size_t>(*offsets[1].as_int());
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), data_ + begin, end - begin);
    return values;
  }

  std::vector<float> f32(const std::string& name) const { return read<float>(name); }
  std::vector<int64_t> i64(const std::string& name) const { return read<int64_t>(name); }

  std::vector<int64_t> shape(const std::string& name) const {
    std::vector<int64_t> sizes;
    const Json* entry = header_.find(name);
    if (entry == nullptr) return sizes;
    for (const Json& size : entry->find("shape")->items()) sizes.push_back(*size.as_int());
    return sizes;
  }

 private:
  MappedFile file_;
  Json header_;
  const uint8_t* data_ = nullptr;
};

/// Every float has the same bits; the first difference is told with both values.
inline ::testing::AssertionResult same_bits(std::span<const float> actual,
                                            std::span<const float> expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " values, expected " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(expected[i])) {
      return ::testing::AssertionFailure()
             << "at " << i << " of " << actual.size() << ": " << std::hexfloat << actual[i]
             << ", expected " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace stoker::testing
