#include "tensor/dtype.h"

#include "base/check.h"

namespace stoker {
namespace {

constexpr DTypeInfo kTypes[] = {
    {DType::kF32, "F32", 4},        {DType::kBF16, "BF16", 2}, {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E8M0, "F8_E8M0", 1}, {DType::kI8, "I8", 1},     {DType::kU8, "U8", 1},
    {DType::kI32, "I32", 4},        {DType::kI64, "I64", 8},
};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto row = static_cast<size_t>(dtype);
  CHECK(row < std::size(kTypes) && kTypes[row].dtype == dtype,
        "the rows are in the order of the types");
  return kTypes[row];
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeInfo& info : kTypes) {
    if (name == info.name) return info.dtype;
  }
  return std::nullopt;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace stoker
