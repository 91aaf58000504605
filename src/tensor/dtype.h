// The element types of a checkpoint, and views of tensors that somebody else owns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// Element types, by their safetensors names.
enum class DType { kF32, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

struct DTypeInfo {
  DType dtype;
  const char* name;  ///< as a safetensors header spells it: "F8_E4M3"
  int size_bytes;
};

const DTypeInfo& dtype_info(DType dtype);

/// The type of that name; none for a name that no V4.1 checkpoint uses.
std::optional<DType> dtype_of(std::string_view name);

using Shape = std::vector<int64_t>;

/// "[48, 160]".
std::string to_string(const Shape& shape);

/// A row-major tensor. Borrows `data` from the file or buffer that it was taken from.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const uint8_t* data = nullptr;
  int64_t size_bytes = 0;
};

}  // namespace stoker
