#include "snapshot/sealed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/try.h"
#include "snapshot/chunk_loader.h"

namespace stoker::snapshot {
namespace {

constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

int64_t in_large_pages(int64_t bytes) {
  return (bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
}

struct NewMemory {
  Descriptor fd;
  ObjectMapping mapping;
  int64_t bytes;
};

Result<NewMemory> memory_of(const ObjectFile& file, unsigned flags, int64_t memory_bytes) {
  Descriptor fd(::memfd_create("stoker-object", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (fd.get() < 0) return system_error(file.path, "no memory to be sealed can be made");
  if (::ftruncate(fd.get(), memory_bytes) != 0) {
    return system_error(file.path, "memory to be sealed cannot be made that large");
  }
  TRY_ASSIGN(ObjectMapping mapping,
             ObjectMapping::writable_memory(fd.get(), file.section.bytes, memory_bytes, file.path));
  return NewMemory{std::move(fd), std::move(mapping), memory_bytes};
}

// Pages that the system keeps apart for this (vm.nr_hugepages) are taken if there are enough, which
// is known when they are mapped; else ordinary memory, in which large pages are asked for.
Result<NewMemory> new_memory(const ObjectFile& file) {
  auto large = memory_of(file, MFD_HUGETLB, in_large_pages(file.section.bytes));
  if (large) return large;
  return memory_of(file, 0, file.section.bytes);
}

Result<void> check_room(const ObjectFile& file) {
  const int64_t available = available_memory_bytes();
  if (file.section.bytes <= available) return {};
  return Error{ErrorCode::kResourceExhausted,
               file.path + ": expected " + std::to_string(file.section.bytes) +
                   " bytes of memory to copy it into, found " + std::to_string(available),
               ""};
}

}  // namespace

Result<Sealed> seal_object(ObjectFile file, int num_threads, const Progress& progress) {
  if (auto checked = check_room(file); !checked) return std::move(checked).error();
  auto made = new_memory(file);
  if (!made) return std::move(made).error();
  AttachReport report;
  report.way = AttachWay::kSealed;
  report.why = "copied and sealed";
  report.is_verified = true;
  report.bytes = file.section.bytes;
  {
    // Sealing needs that nobody can write it: this goes before.
    ObjectMapping mapping = std::move(made->mapping);
    const auto bring = [&](ChunkRange range) {
      const std::span<uint8_t> out = mapping.writable().subspan(static_cast<size_t>(range.offset),
                                                                static_cast<size_t>(range.bytes));
      const int code = mapping.populate(range.offset, range.bytes);
      return code != 0 ? code : read_at(file.file.get(), range.offset, out);
    };
    ChunkLoader loader(file, true);
    loader.set_memory(mapping.bytes());
    std::vector<int64_t> chunks(static_cast<size_t>(file.section.num_chunks()));
    std::iota(chunks.begin(), chunks.end(), 0);
    const double seconds = loader.run(chunks, num_threads, bring, progress);
    if (loader.has_failed()) return loader.error();
    report.populate_s = seconds * loader.bring_share();
    report.verify_s = seconds - report.populate_s;
  }
  if (::fcntl(made->fd.get(), F_ADD_SEALS, kAllSeals) != 0) {
    return system_error(file.path, "its copy cannot be sealed");
  }
  TRY_ASSIGN(Object object, object_in(made->fd, std::move(file)));
  if (object.lock() != 0) report.why += "; not locked, so that it may be swapped out";
  return Sealed{std::move(made->fd), Attached{std::move(object), std::move(report)}};
}

Result<Object> object_in(const Descriptor& memory, ObjectFile file) {
  const auto refused = [&](const std::string& what) {
    return Error{ErrorCode::kCorruptData, file.path + ": what a pinner sent: " + what, ""};
  };
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0) return refused("expected memory that can be sealed, found something else");
  if ((seals & kAllSeals) != kAllSeals) {
    return refused("expected memory sealed against every change, found seals " +
                   std::to_string(seals) + " of " + std::to_string(kAllSeals));
  }
  struct stat status {};
  if (::fstat(memory.get(), &status) != 0) return system_error(file.path, "cannot be examined");
  const int64_t bytes = file.section.bytes;
  if (status.st_size != bytes && status.st_size != in_large_pages(bytes)) {
    return refused("expected " + std::to_string(bytes) + " bytes, found " +
                   std::to_string(status.st_size));
  }
  TRY_ASSIGN(ObjectMapping mapping,
             ObjectMapping::sealed_memory(memory.get(), bytes, status.st_size, file.path));
  return Object(std::move(file), std::move(mapping));
}

}  // namespace stoker::snapshot
