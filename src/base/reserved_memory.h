// Addresses without memory behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "stoker/result.h"

namespace stoker {

/// Owns a range of addresses that nobody else gets. Reading or writing there ends the process: for
/// views of what is known by its shape alone. Movable.
class ReservedMemory {
 public:
  /// `bytes` may be 0. Error: kResourceExhausted.
  static Result<ReservedMemory> create(int64_t bytes);

  /// Makes a range of whole pages, whatever is mapped there, one that nobody may touch. It belongs
  /// to who had it. `what` begins the message. Error: kResourceExhausted; nothing has changed then.
  static Result<void> put_at(uint8_t* data, size_t bytes, const std::string& what);

  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&&) = delete;
  ~ReservedMemory();

  /// Not null.
  const uint8_t* data() const { return data_; }

 private:
  ReservedMemory(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_;
  size_t size_;
};

}  // namespace stoker
