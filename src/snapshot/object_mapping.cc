#include "snapshot/object_mapping.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/folder.h"
#include "base/reserved_memory.h"
#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr int64_t kSmallPageBytes = 4096;

int64_t whole_pages(int64_t bytes, int64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// Why memory could not be mapped: as a rule the limit of addresses.
Error mapping_error(const std::string& path, int64_t bytes) {
  const int code = errno;
  rlimit limit{};
  if (code != ENOMEM || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    Error error = system_error(path, "cannot be mapped", code);
    if (code == ENOMEM) error.code = ErrorCode::kResourceExhausted;
    return error;
  }
  return {ErrorCode::kResourceExhausted,
          path + ": expected addresses for " + std::to_string(bytes) +
              " bytes, found a limit of this process of " + std::to_string(limit.rlim_cur) +
              " bytes for all it maps (RLIMIT_AS, ulimit -v)",
          ""};
}

// Addresses for `bytes`, a multiple of small pages, that begin at a multiple of a large page; what
// is around them is given back. Null, with errno, where there are none.
uint8_t* reserve(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const size_t reserved = size + static_cast<size_t>(kLargePageBytes);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const room = ::mmap(nullptr, reserved, PROT_NONE, flags, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<uint8_t*>(room);
  const size_t past = reinterpret_cast<uintptr_t>(begin) % static_cast<size_t>(kLargePageBytes);
  const size_t lead = past == 0 ? 0 : static_cast<size_t>(kLargePageBytes) - past;
  if (lead > 0) ::munmap(begin, lead);
  ::munmap(begin + lead + size, reserved - lead - size);
  return begin + lead;
}

// One range of /proc/self/smaps: its addresses, as they stand in the first line.
struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

bool read_range(const std::string& line, AddressRange& range) {
  unsigned long begin = 0;
  unsigned long end = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) != 2) return false;
  range = {begin, end};
  return true;
}

bool tells_large_pages(std::string_view line) {
  return line.starts_with("AnonHugePages:") || line.starts_with("ShmemPmdMapped:") ||
         line.starts_with("FilePmdMapped:") || line.starts_with("Private_Hugetlb:") ||
         line.starts_with("Shared_Hugetlb:");
}

}  // namespace

Result<ObjectMapping> ObjectMapping::map_aligned(Kind kind, int64_t bytes, int64_t mapped_bytes,
                                                 const std::string& path) {
  uint8_t* const place = reserve(mapped_bytes);
  if (place == nullptr) return mapping_error(path, bytes);
  const auto size = static_cast<size_t>(mapped_bytes);
  void* const data = ::mmap(place, size, kind.protection, MAP_FIXED | kind.flags, kind.fd, 0);
  if (data == MAP_FAILED) {
    const Error error = mapping_error(path, bytes);
    ::munmap(place, size);
    return error;
  }
  // A hint, before the first touch: where it is not known, pages are small.
  (void)::madvise(data, size, MADV_HUGEPAGE);
  return ObjectMapping(place, bytes, mapped_bytes, (kind.protection & PROT_WRITE) != 0, path);
}

Result<ObjectMapping> ObjectMapping::map(int fd, int64_t bytes, const std::string& path) {
  return map_aligned({fd, PROT_READ, MAP_SHARED}, bytes, whole_pages(bytes, kSmallPageBytes), path);
}

Result<ObjectMapping> ObjectMapping::anonymous(int64_t bytes, const std::string& path) {
  return map_aligned({-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}, bytes,
                     whole_pages(bytes, kLargePageBytes), path);
}

Result<ObjectMapping> ObjectMapping::writable_memory(int fd, int64_t bytes, int64_t memory_bytes,
                                                     const std::string& path) {
  return map_aligned({fd, PROT_READ | PROT_WRITE, MAP_SHARED}, bytes,
                     whole_pages(memory_bytes, kSmallPageBytes), path);
}

Result<ObjectMapping> ObjectMapping::sealed_memory(int fd, int64_t bytes, int64_t memory_bytes,
                                                   const std::string& path) {
  const int64_t mapped_bytes = whole_pages(memory_bytes, kSmallPageBytes);
  auto mapping = map_aligned({fd, PROT_READ, MAP_SHARED}, bytes, mapped_bytes, path);
  // Before Linux 6.7 what is sealed cannot be mapped so. Never written, it is one copy all the
  // same.
  if (mapping) return mapping;
  return map_aligned({fd, PROT_READ, MAP_PRIVATE | MAP_NORESERVE}, bytes, mapped_bytes, path);
}

ObjectMapping::ObjectMapping(ObjectMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      is_writable_(other.is_writable_),
      name_(std::move(other.name_)) {}

ObjectMapping::~ObjectMapping() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(mapped_bytes_));
}

Result<void> ObjectMapping::protect(const std::string& path) {
  is_writable_ = false;
  if (::mprotect(data_, static_cast<size_t>(mapped_bytes_), PROT_READ) == 0) return {};
  return system_error(path, "memory cannot be made read-only");
}

int ObjectMapping::populate(int64_t offset, int64_t bytes) const {
  CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= mapped_bytes_, "a range of the mapping");
  uint8_t* const from = data_ + offset;
  const auto size = static_cast<size_t>(bytes);
  int code = 0;
  do {
    const int advice = is_writable_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    code = ::madvise(from, size, advice) == 0 ? 0 : errno;
  } while (code == EINTR || code == EAGAIN);
  if (code != EINVAL) return code;
  for (size_t at = 0; at < size; at += static_cast<size_t>(kSmallPageBytes)) {
    volatile uint8_t* const page = from + at;
    const uint8_t byte = *page;
    if (is_writable_) *page = byte;
  }
  return 0;
}

int ObjectMapping::lock() const {
  return ::mlock2(data_, static_cast<size_t>(mapped_bytes_), MLOCK_ONFAULT) == 0 ? 0 : errno;
}

// Anonymous memory would lose its bytes.
void ObjectMapping::drop_pages() const {
  if (!is_writable_ && data_ != nullptr)
    (void)::madvise(data_, static_cast<size_t>(mapped_bytes_), MADV_DONTNEED);
}

Result<void> ObjectMapping::let_go(const std::string& path) {
  auto gone = ReservedMemory::put_at(data_, static_cast<size_t>(mapped_bytes_), path);
  if (!gone) return gone;
  is_writable_ = false;
  name_ = MappingName();
  return {};
}

// What either has behind the last page of the bytes is given back: nobody reads it.
Result<void> ObjectMapping::take_over(ObjectMapping&& other, const std::string& path) {
  CHECK(bytes_ == other.bytes_, "memory for the same bytes");
  const int64_t moved_bytes = whole_pages(bytes_, kSmallPageBytes);
  const auto size = static_cast<size_t>(moved_bytes);
  if (::mremap(other.data_, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    Error error = mapping_error(path, bytes_);
    (void)let_go(path);  // the system may have made way already
    return error;
  }
  for (ObjectMapping* mapping : {this, &other}) {
    const int64_t rest = mapping->mapped_bytes_ - moved_bytes;
    if (rest > 0) ::munmap(mapping->data_ + moved_bytes, static_cast<size_t>(rest));
  }
  other.data_ = nullptr;
  other.name_ = MappingName();
  mapped_bytes_ = moved_bytes;
  is_writable_ = other.is_writable_;
  name_ = MappingName(data_, size, path);
  return {};
}

int64_t ObjectMapping::large_page_bytes() const {
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t end = begin + static_cast<uintptr_t>(mapped_bytes_);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  AddressRange range;
  int64_t bytes = 0;
  while (std::getline(smaps, line)) {
    if (read_range(line, range) || range.end <= begin || range.begin >= end) continue;
    if (!tells_large_pages(line)) continue;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%*[^:]: %ld", &kib) == 1) bytes += kib << 10;
  }
  return bytes;
}

}  // namespace stoker::snapshot
