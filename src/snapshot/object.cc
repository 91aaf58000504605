#include "snapshot/object.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/try.h"

namespace stoker::snapshot {
namespace {

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

Result<ObjectFile> ObjectFile::open(const Folder& objects, const Section& section) {
  if (auto checked = check_section(section); !checked) return std::move(checked).error();
  TRY_ASSIGN(Descriptor file, objects.open_file(section.object(), section.bytes));
  TRY_ASSIGN(std::vector<uint64_t> table, read_table(objects, section));
  return ObjectFile{section, objects.path_of(section.object()), std::move(table), std::move(file)};
}

Error ObjectFile::read_error(int code) const {
  struct stat status {};
  if (file.get() >= 0 && ::fstat(file.get(), &status) == 0 && status.st_size != section.bytes) {
    return damaged(path, "expected " + std::to_string(section.bytes) + " bytes, found " +
                             std::to_string(status.st_size) + ": changed while it was read");
  }
  Error error = system_error(path, "cannot be read", code == EFAULT ? EIO : code);
  if (code == ENOMEM) error.code = ErrorCode::kResourceExhausted;
  return error;
}

Error ObjectFile::chunk_error(int64_t chunk_idx) const {
  const ChunkRange range = chunk_range(chunk_idx, section.bytes);
  return damaged(path, "expected the bytes of its chunk table, found others in chunk " +
                           std::to_string(chunk_idx) + ", bytes " + std::to_string(range.offset) +
                           " to " + std::to_string(range.offset + range.bytes));
}

Object::Object(ObjectFile file, ObjectMapping mapping)
    : file_(std::move(file)), mapping_(std::move(mapping)) {
  const Descriptor closes = std::move(file_.file);
}

Result<Object> Object::open(const Folder& objects, const Section& section) {
  TRY_ASSIGN(ObjectFile file, ObjectFile::open(objects, section));
  TRY_ASSIGN(ObjectMapping mapping, ObjectMapping::map(file.file.get(), section.bytes, file.path));
  return Object(std::move(file), std::move(mapping));
}

Result<void> Object::take_over(Object&& other) {
  CHECK(section() == other.section(), "the same section");
  auto taken = mapping_.take_over(std::move(other.mapping_), other.file_.path);
  if (taken) file_ = std::move(other.file_);
  return taken;
}

int Object::lock() const {
  const int code = mapping_.lock();
  return code != 0 ? code : mapping_.populate(0, file_.section.bytes);
}

bool Object::chunk_is_good(int64_t chunk_idx) const {
  CHECK(chunk_idx >= 0 && chunk_idx < num_chunks(), "a chunk of the object");
  const ChunkRange range = chunk_range(chunk_idx, file_.section.bytes);
  const Bytes chunk =
      bytes().subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes));
  return chunk_digest(chunk, chunk_idx) == file_.table[static_cast<size_t>(chunk_idx)];
}

Result<void> Object::verify_head(int64_t bytes) const {
  const int64_t end = std::min(bytes, file_.section.bytes);
  for (int64_t chunk_idx = 0; chunk_idx * kChunkBytes < end; ++chunk_idx) {
    if (!chunk_is_good(chunk_idx)) return chunk_error(chunk_idx);
  }
  return {};
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
