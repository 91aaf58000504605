// Which file lies behind an address, for who is told that it cannot be read any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stoker {

/// Has a range of addresses found by find_mapping() while it lives. Movable. Of the first 1024 at a
/// time: there is no room for more, and they stay without a name. Any thread.
class MappingName {
 public:
  MappingName() = default;
  /// A long name keeps its end. `bytes` > 0.
  MappingName(const void* data, size_t bytes, std::string_view name);

  MappingName(MappingName&& other) noexcept;
  MappingName& operator=(MappingName&& other) noexcept;
  ~MappingName();

 private:
  int slot_ = -1;
};

struct FoundMapping {
  const char* name;  ///< lives as long as the process; another one once its MappingName is gone
  uint64_t offset;   ///< of the address in it, bytes
};

/// What was named there. Safe in a signal handler.
std::optional<FoundMapping> find_mapping(const void* address);

}  // namespace stoker
