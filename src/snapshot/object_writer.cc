#include "snapshot/object_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <utility>

#include "base/try.h"
#include "snapshot/object.h"

namespace stoker::snapshot {
namespace {

constexpr const char* kObjectName = "object";
constexpr const char* kTableName = "table";
constexpr const char* kKeyName = "key";

// A full disk is told before hours of work, and with numbers.
Result<void> check_space(const Folder& folder, int64_t needed) {
  struct statvfs status {};
  if (::fstatvfs(folder.fd(), &status) != 0) {
    return system_error(folder.path(), "cannot be examined");
  }
  const auto free = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  if (free >= needed) return {};
  return Error{ErrorCode::kResourceExhausted,
               folder.path() + ": expected " + std::to_string(needed) +
                   " bytes of free space, found " + std::to_string(free) +
                   "; make room, or use a store elsewhere",
               ""};
}

Result<void> reserve(int fd, int64_t bytes, const std::string& path) {
  int code = EINTR;
  while (code == EINTR) code = ::posix_fallocate(fd, 0, bytes);
  if (code == 0) return {};
  return system_error(path, "expected room for " + std::to_string(bytes) + " bytes", code);
}

}  // namespace

std::string key_name(const std::string& kind, const Digest& key) {
  return kind + "-" + key.hex();
}

ObjectWriter::ObjectWriter(const StoreFolders& folders, Section section, WorkFolder work,
                           Descriptor file)
    : folders_(&folders),
      section_(std::move(section)),
      work_(std::move(work)),
      file_(std::move(file)) {}

std::string ObjectWriter::path() const {
  return work_.folder().path_of(kObjectName);
}

Result<ObjectWriter> ObjectWriter::create(const StoreFolders& folders, const std::string& kind,
                                          int64_t bytes) {
  Section section;
  section.kind = kind;
  section.bytes = bytes;
  if (auto checked = check_section(section); !checked) return std::move(checked).error();
  const int64_t table_bytes = section.num_chunks() * static_cast<int64_t>(sizeof(uint64_t));
  if (auto checked = check_space(folders.tmp, bytes + table_bytes); !checked) {
    return std::move(checked).error();
  }
  TRY_ASSIGN(WorkFolder work, WorkFolder::create(folders.tmp));
  TRY_ASSIGN(Descriptor file, work.folder().create_file(kObjectName));
  auto reserved = reserve(file.get(), bytes, work.folder().path_of(kObjectName));
  if (!reserved) return std::move(reserved).error();
  return ObjectWriter(folders, std::move(section), std::move(work), std::move(file));
}

Result<void> ObjectWriter::write(int64_t offset, Bytes part) const {
  const auto size = static_cast<int64_t>(part.size());
  if (offset < 0 || size > bytes() || offset > bytes() - size) {
    return Error{ErrorCode::kInvalidArgument,
                 path() + ": expected a part of " + std::to_string(bytes()) + " bytes, found " +
                     std::to_string(size) + " at " + std::to_string(offset),
                 ""};
  }
  const int code = write_at(file_.get(), offset, part);
  if (code != 0) return system_error(path(), "cannot be written", code);
  return {};
}

Result<Section> ObjectWriter::publish(const Digest& key, int num_threads,
                                      const Progress& progress) {
  const Descriptor file = std::move(file_);  // from now on nobody can write it
  TRY_ASSIGN(const std::vector<uint64_t> digests,
             table_of_file(file.get(), bytes(), path(), num_threads, progress));
  const std::string table = table_bytes(digests);
  section_.digest = object_digest(bytes_of(table), bytes());
  section_.table_digest = digest_of(table);
  section_.key = key;
  if (::fchmod(file.get(), S_IRUSR) != 0) return system_error(path(), "cannot be made read-only");
  if (auto synced = sync_file(file.get(), path()); !synced) return std::move(synced).error();
  if (auto placed = place_object(table, num_threads); !placed) return std::move(placed).error();
  if (auto placed = place_key(); !placed) return std::move(placed).error();
  return section_;
}

// Two that publish the same content at once may both find nothing; then the later file takes the
// place of the earlier one, which is the same.
Result<void> ObjectWriter::place_object(const std::string& table, int num_threads) const {
  const Folder& objects = folders_->objects;
  const auto there = Object::open(objects, section_);
  if (!there || !there->verify(num_threads)) {
    const Folder& work = work_.folder();
    if (auto written = work.write_file(kTableName, table); !written) return written;
    auto placed = work.move_file(kTableName, objects, table_name(section_));
    if (placed) placed = work.move_file(kObjectName, objects, section_.object());
    if (!placed) return placed;
  }
  return objects.sync();
}

Result<void> ObjectWriter::place_key() const {
  const Folder& work = work_.folder();
  if (auto written = work.write_file(kKeyName, key_file_text(section_)); !written) return written;
  auto placed = work.move_file(kKeyName, folders_->keys, key_name(section_.kind, section_.key));
  if (!placed) return placed;
  return folders_->keys.sync();
}

}  // namespace stoker::snapshot
