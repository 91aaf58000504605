// Little-endian numbers in byte buffers, whatever the alignment.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace stoker {

using Bytes = std::span<const uint8_t>;

/// The T at the start of `from`, which has at least sizeof(T) bytes. The hosts we build for are
/// little-endian.
template <class T>
T load_le(const uint8_t* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Appends the bytes of `value`.
template <class T>
void append_le(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace stoker
