// The safetensors container: an 8-byte header length, a JSON header, tensors. Reading never trusts
// the header further than the file goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "stoker/result.h"
#include "tensor/dtype.h"

namespace stoker {

struct NamedTensor {
  std::string name;
  TensorView view;  ///< borrows from the bytes that were parsed
};

/// The tensors of a file image, in the order of their data. `name` stands in messages. Errors:
/// kCorruptData with the tensor and what was expected and found: short or overlong header, repeated
/// names, unknown dtypes, negative or overflowing shapes, offsets that do not match the shape,
/// overlap, leave a gap or pass the end.
Result<std::vector<NamedTensor>> parse_safetensors(Bytes file, const std::string& name);

/// The same of a file whose data is not there: `head` is its length and header, nothing behind it.
/// Views have no data. Errors: those of parse_safetensors, as if the data were there.
Result<std::vector<NamedTensor>> parse_safetensors_head(Bytes head, const std::string& name);

/// The length and the header of a file that parse_safetensors takes.
Bytes header_of(Bytes file);

/// A tensor to be written: borrowed bytes, row-major.
struct TensorToWrite {
  std::string name;
  DType dtype;
  Shape shape;
  Bytes bytes;
};

/// What a file with these tensors begins with, up to their data, which follows in the given order:
/// the header and its length, together padded with spaces to a multiple of `alignment`, itself one
/// of 8. Where the views' data is does not matter; it may be null.
std::string safetensors_head(const std::vector<NamedTensor>& tensors, size_t alignment = 8);

/// The image of a file with these tensors in the given order.
std::string serialize_safetensors(const std::vector<TensorToWrite>& tensors);

}  // namespace stoker
