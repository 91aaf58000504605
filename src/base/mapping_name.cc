#include "base/mapping_name.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace stoker {
namespace {

constexpr size_t kNumSlots = 1024;
constexpr size_t kNameBytes = 240;

// A signal handler reads it without a lock. The last byte of the name stays 0.
struct NameSlot {
  std::atomic<uintptr_t> begin = 0;  // 0: free; set last, cleared first
  std::atomic<uintptr_t> end = 0;
  char name[kNameBytes + 1] = {};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free, "needed in a signal handler");

std::array<NameSlot, kNumSlots> slots;
std::mutex slots_mutex;  // guards who takes one

}  // namespace

MappingName::MappingName(const void* data, size_t bytes, std::string_view name) {
  const std::lock_guard lock(slots_mutex);
  const auto free =
      std::ranges::find_if(slots, [](const NameSlot& slot) { return slot.begin == 0; });
  if (free == slots.end()) return;
  name.remove_prefix(name.size() - std::min(name.size(), kNameBytes));
  std::memset(free->name, 0, sizeof free->name);
  std::memcpy(free->name, name.data(), name.size());
  const auto begin = reinterpret_cast<uintptr_t>(data);
  free->end = begin + bytes;
  free->begin = begin;
  slot_ = static_cast<int>(free - slots.begin());
}

MappingName::MappingName(MappingName&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

MappingName& MappingName::operator=(MappingName&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

MappingName::~MappingName() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].begin = 0;
}

std::optional<FoundMapping> find_mapping(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const NameSlot& slot : slots) {
    const uintptr_t begin = slot.begin;
    if (begin != 0 && begin <= at && at < slot.end) return FoundMapping{slot.name, at - begin};
  }
  return std::nullopt;
}

}  // namespace stoker
