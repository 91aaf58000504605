#include "base/reserved_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

namespace stoker {

Result<ReservedMemory> ReservedMemory::create(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* const data =
      ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorCode::kResourceExhausted,
                 "expected " + std::to_string(bytes) + " bytes of addresses, found no such range",
                 ""};
  }
  return ReservedMemory(static_cast<const uint8_t*>(data), size);
}

Result<void> ReservedMemory::put_at(uint8_t* data, size_t bytes, const std::string& what) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(data, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED) return {};
  return Error{ErrorCode::kResourceExhausted,
               what +
                   ": expected to keep its addresses, found no room for one more mapping "
                   "(vm.max_map_count)",
               ""};
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace stoker
