// Safetensors images: every byte of what is taken can be read, and writing it again gives the same
// tensors.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstdlib>

namespace {

bool same(const stoker::NamedTensor& a, const stoker::NamedTensor& b) {
  const stoker::Bytes x(a.view.data, static_cast<size_t>(a.view.size_bytes));
  const stoker::Bytes y(b.view.data, static_cast<size_t>(b.view.size_bytes));
  return a.name == b.name && a.view.dtype == b.view.dtype && a.view.shape == b.view.shape &&
         std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = stoker::parse_safetensors({data, size}, "file");
  if (!tensors) return 0;
  std::vector<stoker::TensorToWrite> to_write;
  for (const auto& [name, view] : *tensors) {
    to_write.push_back(
        {name, view.dtype, view.shape, {view.data, static_cast<size_t>(view.size_bytes)}});
  }
  const std::string image = stoker::serialize_safetensors(to_write);
  const auto again = stoker::parse_safetensors(
      {reinterpret_cast<const uint8_t*>(image.data()), image.size()}, "again");
  if (!again || !std::equal(tensors->begin(), tensors->end(), again->begin(), again->end(), same))
    std::abort();
  return 0;
}
