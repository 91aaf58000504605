#include "snapshot/arrival.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "snapshot/chunk_table.h"
#include "snapshot/object.h"
#include "snapshot/text_lines.h"

namespace stoker::snapshot {
namespace {

constexpr const char* kPartName = "object";
constexpr const char* kPartTableName = "table";
constexpr std::string_view kPartSuffix = ".part";

int64_t file_bytes(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : 0;
}

// Opens the file of what arrived, or makes it. Its folder is this user's alone.
Result<Descriptor> open_part_file(const Folder& folder) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(::openat(folder.fd(), kPartName, flags, S_IRUSR | S_IWUSR));
  if (file.get() < 0 && errno == EACCES) {  // whole, and not yet in its place
    ::unlinkat(folder.fd(), kPartName, 0);
    file = Descriptor(::openat(folder.fd(), kPartName, flags, S_IRUSR | S_IWUSR));
  }
  if (file.get() < 0) return system_error(folder.path_of(kPartName), "cannot be opened");
  return file;
}

void remove_part_folder(const Folder& tmp, const std::string& name, const Folder& folder) {
  for (const char* const file : {kPartName, kPartTableName}) ::unlinkat(folder.fd(), file, 0);
  ::unlinkat(tmp.fd(), name.c_str(), AT_REMOVEDIR);
}

std::string missing_bytes_text(int64_t needed, int64_t free) {
  return ": expected " + std::to_string(needed) + " bytes of free space, found " +
         std::to_string(free) + "; make room, or use a store elsewhere";
}

}  // namespace

Result<void> check_table(const Section& section, std::string_view table) {
  const auto expected = static_cast<size_t>(section.num_chunks()) * sizeof(uint64_t);
  const bool is_its = table.size() == expected && digest_of(table) == section.table_digest &&
                      object_digest(bytes_of(table), section.bytes) == section.digest;
  if (is_its) return {};
  return Error{ErrorCode::kCorruptData,
               table_name(section) + ": expected the table of this object, found another", ""};
}

Arrival::Arrival(const Store& store, Section section, Left left, KeyLock lock)
    : folders_(&store.folders()),
      section_(std::move(section)),
      left_(left),
      lock_(std::move(lock)) {}

Arrival::~Arrival() {
  const bool is_left = folder_ && folder_->fd() >= 0 && file_;  // neither moved from nor placed
  if (is_left && left_ == Left::kRemoved)
    remove_part_folder(folders_->tmp, folder_name(), *folder_);
}

std::string Arrival::folder_name() const {
  return section_.object() + std::string(kPartSuffix);
}

int64_t Arrival::next_chunk_bytes() const {
  return std::min(kChunkBytes, section_.bytes - num_bytes_);
}

Result<Arrival> Arrival::begin(const Store& store, const Section& section, Left left,
                               const WaitSink& wait) {
  if (auto checked = check_section(section); !checked) return std::move(checked).error();
  if (auto checked = store.check_writable(); !checked) return std::move(checked).error();
  TRY_ASSIGN(KeyLock lock, KeyLock::take(store.folders().tmp, section.object(), wait));
  Arrival arrival(store, section, left, std::move(lock));
  if (store.open_object(section)) {
    arrival.num_bytes_ = section.bytes;
    return arrival;
  }
  if (auto opened = arrival.open_folder(store); !opened) return std::move(opened).error();
  return arrival;
}

Result<void> Arrival::open_folder(const Store& store) {
  const Folder& tmp = store.folders().tmp;
  if (auto made = tmp.make_folder(folder_name()); !made) return made;
  TRY_ASSIGN(Folder folder, tmp.open_folder(folder_name()));
  TRY_ASSIGN(Descriptor file, open_part_file(folder));
  folder_.emplace(std::move(folder));
  file_.emplace(std::move(file));
  if (auto went_on = go_on(); !went_on) return went_on;
  return reserve();
}

// Believes of what is there the chunks that are good, up to the first one that is not.
Result<void> Arrival::go_on() {
  const std::string path = folder_->path_of(kPartName);
  if (left_ == Left::kKept) {
    const auto limit = static_cast<size_t>(section_.num_chunks()) * sizeof(uint64_t);
    const auto table = folder_->read_file(kPartTableName, limit);
    if (table && check_table(section_, *table)) table_ = parse_table(*table);
  }
  const int64_t there = table_.empty() ? 0 : std::min(file_bytes(file_->get()), section_.bytes);
  std::vector<uint8_t> chunk;
  while (num_bytes_ < there && next_chunk_bytes() <= there - num_bytes_) {
    chunk.resize(static_cast<size_t>(next_chunk_bytes()));
    const int64_t chunk_idx = num_bytes_ / kChunkBytes;
    if (read_at(file_->get(), num_bytes_, chunk) != 0) break;
    if (chunk_digest(chunk, chunk_idx) != table_[static_cast<size_t>(chunk_idx)]) break;
    num_bytes_ += next_chunk_bytes();
  }
  if (::ftruncate(file_->get(), num_bytes_) != 0) return system_error(path, "cannot be cut");
  return {};
}

// A full disk is told before hours of work. Room is taken without a change of the size, which says
// how much arrived; file systems that cannot do so tell later.
Result<void> Arrival::reserve() const {
  const std::string path = folder_->path_of(kPartName);
  const int64_t table_bytes = section_.num_chunks() * static_cast<int64_t>(sizeof(uint64_t));
  const int64_t needed = section_.bytes - num_bytes_ + table_bytes;
  struct stat status {};
  struct statvfs space {};
  if (::fstat(file_->get(), &status) != 0 || ::fstatvfs(file_->get(), &space) != 0)
    return system_error(path, "cannot be examined");
  // What was reserved before is no longer free, and this file's.
  const int64_t reserved = std::max<int64_t>(0, status.st_blocks * 512 - num_bytes_);
  const auto free = static_cast<int64_t>(space.f_bavail * space.f_frsize) + reserved;
  if (free < needed) {
    return Error{ErrorCode::kResourceExhausted, path + missing_bytes_text(needed, free), ""};
  }
  int result = -1;
  do {
    result = ::fallocate(file_->get(), FALLOC_FL_KEEP_SIZE, 0, section_.bytes);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return {};
  return system_error(path, "expected room for " + std::to_string(section_.bytes) + " bytes");
}

Result<void> Arrival::set_table(const std::string& table) {
  if (auto checked = check_table(section_, table); !checked) return checked;
  table_ = parse_table(table);
  if (auto removed = folder_->remove_file(kPartTableName); !removed) return removed;
  return folder_->write_file(kPartTableName, table);
}

Result<void> Arrival::add_chunk(Bytes chunk) {
  CHECK(has_table() && !is_whole() && static_cast<int64_t>(chunk.size()) == next_chunk_bytes(),
        "the next chunk");
  const int64_t chunk_idx = num_bytes_ / kChunkBytes;
  if (chunk_digest(chunk, chunk_idx) != table_[static_cast<size_t>(chunk_idx)]) {
    return Error{ErrorCode::kCorruptData,
                 section_.object() +
                     ": expected the bytes of its chunk table, found others in "
                     "chunk " +
                     std::to_string(chunk_idx) + ", bytes " + std::to_string(num_bytes_) + " to " +
                     std::to_string(num_bytes_ + next_chunk_bytes()),
                 ""};
  }
  if (const int code = write_at(file_->get(), num_bytes_, chunk); code != 0)
    return system_error(folder_->path_of(kPartName), "cannot be written", code);
  num_bytes_ += next_chunk_bytes();
  return {};
}

Result<void> Arrival::place() {
  CHECK(is_whole(), "all chunks are there");
  if (is_there()) return {};
  const std::string path = folder_->path_of(kPartName);
  if (::fchmod(file_->get(), S_IRUSR) != 0) return system_error(path, "cannot be made read-only");
  if (auto synced = sync_file(file_->get(), path); !synced) return synced;
  const Folder& objects = folders_->objects;
  auto placed = folder_->move_file(kPartTableName, objects, table_name(section_));
  if (placed) placed = folder_->move_file(kPartName, objects, section_.object());
  if (placed) placed = objects.sync();
  if (!placed) return placed;
  remove_part_folder(folders_->tmp, folder_name(), *folder_);
  file_.reset();
  return {};
}

int remove_left_arrivals(const StoreFolders& folders) {
  const auto names = folders.tmp.names();
  if (!names) return 0;
  int num_removed = 0;
  for (const std::string& name : *names) {
    Section section;
    if (!name.ends_with(kPartSuffix) ||
        !parse_object_name(name.substr(0, name.size() - kPartSuffix.size()), section))
      continue;
    const auto folder = folders.tmp.open_folder(name);
    if (!folder) continue;
    remove_part_folder(folders.tmp, name, *folder);
    ++num_removed;
  }
  return num_removed;
}

}  // namespace stoker::snapshot
