#include "snapshot/object.h"

#include <sys/mman.h>

#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

Error damaged(const std::string& path, const std::string& what) {
  return {ErrorCode::kCorruptData, path + ": " + what, ""};
}

// The table of a section, as its two digests say it must be.
Result<std::vector<uint64_t>> read_table(const Folder& objects, const Section& section) {
  const std::string name = table_name(section);
  const int64_t bytes = section.num_chunks() * static_cast<int64_t>(sizeof(uint64_t));
  TRY_ASSIGN(const Descriptor file, objects.open_file(name, bytes));
  std::string table(static_cast<size_t>(bytes), '\0');
  const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(table.data()), table.size());
  if (const int code = read_at(file.get(), 0, out); code != 0) {
    return system_error(objects.path_of(name), "cannot be read", code);
  }
  if (digest_of(out) != section.table_digest) {
    return damaged(objects.path_of(name), "expected the digest " + section.table_digest.hex() +
                                              ", found " + digest_of(out).hex());
  }
  if (object_digest(out, section.bytes) != section.digest) {
    return damaged(objects.path_of(name),
                   "expected the table of " + section.object() + ", found that of another object");
  }
  return parse_table(table);
}

}  // namespace

std::string table_name(const Section& section) {
  return section.object() + ".table";
}

Result<ObjectMapping> ObjectMapping::map(int fd, int64_t bytes, const std::string& path) {
  const auto size = static_cast<size_t>(bytes);
  // Reserved with room to begin at a multiple of a large page; what is around it is given back.
  const size_t reserved = size + kLargePage;
  void* const room =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return system_error(path, "cannot be mapped");
  auto* const begin = static_cast<uint8_t*>(room);
  const size_t lead = (kLargePage - reinterpret_cast<uintptr_t>(begin) % kLargePage) % kLargePage;
  void* const data = ::mmap(begin + lead, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    Error error = system_error(path, "cannot be mapped");
    ::munmap(room, reserved);
    return error;
  }
  constexpr size_t kPage = 4096;
  const size_t mapped = (size + kPage - 1) / kPage * kPage;
  if (lead > 0) ::munmap(begin, lead);
  if (lead + mapped < reserved) ::munmap(begin + lead + mapped, reserved - lead - mapped);
  // A hint, before the first touch: where it is not known, pages are small.
  (void)::madvise(data, size, MADV_HUGEPAGE);
  return ObjectMapping(begin + lead, size);
}

ObjectMapping::ObjectMapping(ObjectMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

ObjectMapping::~ObjectMapping() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

Object::Object(Section section, std::string path, std::vector<uint64_t> table,
               ObjectMapping mapping)
    : section_(std::move(section)),
      path_(std::move(path)),
      table_(std::move(table)),
      mapping_(std::move(mapping)) {}

Result<Object> Object::open(const Folder& objects, const Section& section) {
  if (auto checked = check_section(section); !checked) return std::move(checked).error();
  TRY_ASSIGN(const Descriptor file, objects.open_file(section.object(), section.bytes));
  TRY_ASSIGN(std::vector<uint64_t> table, read_table(objects, section));
  std::string path = objects.path_of(section.object());
  TRY_ASSIGN(ObjectMapping mapping, ObjectMapping::map(file.get(), section.bytes, path));
  return Object(section, std::move(path), std::move(table), std::move(mapping));
}

bool Object::chunk_is_good(int64_t chunk_idx) const {
  CHECK(chunk_idx >= 0 && chunk_idx < num_chunks(), "a chunk of the object");
  const ChunkRange range = chunk_range(chunk_idx, section_.bytes);
  const Bytes chunk =
      bytes().subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes));
  return chunk_digest(chunk, chunk_idx) == table_[static_cast<size_t>(chunk_idx)];
}

Error Object::chunk_error(int64_t chunk_idx) const {
  const ChunkRange range = chunk_range(chunk_idx, section_.bytes);
  return damaged(path_, "expected the bytes of its chunk table, found others in chunk " +
                            std::to_string(chunk_idx) + ", bytes " + std::to_string(range.offset) +
                            " to " + std::to_string(range.offset + range.bytes));
}

Result<void> Object::verify(int num_threads, const Progress& progress) const {
  std::atomic<int64_t> first_bad{num_chunks()};
  for_each_chunk(num_chunks(), num_threads, progress, [&](int64_t chunk_idx, int /*worker*/) {
    // Chunks before a bad one are begun before it: the first of all is found.
    if (chunk_idx > first_bad || chunk_is_good(chunk_idx)) return;
    int64_t before = first_bad;
    while (chunk_idx < before && !first_bad.compare_exchange_weak(before, chunk_idx)) {
    }
  });
  if (first_bad < num_chunks()) return chunk_error(first_bad);
  return {};
}

}  // namespace stoker::snapshot
