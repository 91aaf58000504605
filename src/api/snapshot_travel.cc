// Snapshots that go from one store to another, and what differs between two.
#include "stoker/snapshot_travel.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "api/snapshot_travel.h"
#include "api/snapshots.h"
#include "api/stored_weights.h"
#include "base/try.h"
#include "catalogue/snapshot_stream.h"
#include "snapshot/manifest_diff.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Sharing;
using snapshot::Snapshots;
using snapshot::Store;

constexpr const char* kStandardStream = "-";

SnapshotPart part_of(const std::optional<snapshot::Section>& section) {
  if (!section) return {};
  return {section->kind, section->object(), section->bytes};
}

// A file in the making beside its place, or what is no regular file: a pipe, a device.
class ExportFile {
 public:
  static Result<ExportFile> create(const std::string& path) {
    if (path == kStandardStream) return ExportFile("standard output", "", ::dup(STDOUT_FILENO));
    struct stat status {};
    const bool is_other = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    const std::string part = is_other ? path : path + ".part";
    const int flags = O_WRONLY | O_CLOEXEC | (is_other ? 0 : O_CREAT | O_TRUNC);
    const int fd = ::open(part.c_str(), flags, S_IRUSR | S_IWUSR);
    if (fd < 0) return system_error(part, "cannot be created");
    return ExportFile(path, is_other ? "" : part, fd);
  }

  ExportFile(ExportFile&& other) noexcept = default;
  ExportFile& operator=(ExportFile&&) = delete;
  ~ExportFile() {
    if (file_.get() >= 0 && !part_.empty()) ::unlink(part_.c_str());
  }

  Result<void> write(Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(path_, "cannot be written");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Result<void> finish() {
    if (part_.empty()) return {};
    if (auto synced = sync_file(file_.get(), part_); !synced) return synced;
    if (::rename(part_.c_str(), path_.c_str()) != 0)
      return system_error(path_, "cannot be put in its place");
    part_.clear();
    return {};
  }

 private:
  ExportFile(std::string path, std::string part, int fd)
      : path_(std::move(path)), part_(std::move(part)), file_(fd) {}

  std::string path_;
  std::string part_;  // "" : it is written in its place
  Descriptor file_;
};

Result<Descriptor> open_import(const std::string& path) {
  Descriptor file(path == kStandardStream ? ::dup(STDIN_FILENO)
                                          : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(path, "cannot be opened");
  return file;
}

}  // namespace

snapshot::Progress progress_of(const SnapshotOptions& options, const std::string& phase,
                               int64_t num_bytes) {
  if (!options.engine.progress) return {};
  return [sink = options.engine.progress, phase, num_bytes](double fraction) {
    sink({phase, fraction, num_bytes});
  };
}

Result<HeldSnapshot> hold_snapshot(const Store& store, const std::string& id) {
  const Snapshots snapshots(store);
  TRY_ASSIGN(const snapshot::Digest whole, snapshots.id_of(id));
  HeldSnapshot held;
  if (store.writable()) {  // nobody collects where nobody writes
    TRY_ASSIGN(snapshot::UseLock taken, snapshots.use(whole, Sharing::kShared));
    held.in_use.emplace(std::move(taken));
  }
  TRY_ASSIGN(held.manifest, snapshots.read(whole));
  TRY_ASSIGN(held.signature, snapshots.signature(whole));
  return held;
}

Result<SnapshotDiff> diff_snapshots(const std::string& a, const std::string& b,
                                    const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  const Snapshots snapshots(store);
  TRY_ASSIGN(const snapshot::Digest id_a, snapshots.id_of(a));
  TRY_ASSIGN(const snapshot::Digest id_b, snapshots.id_of(b));
  TRY_ASSIGN(const Manifest in_a, snapshots.read(id_a));
  TRY_ASSIGN(const Manifest in_b, snapshots.read(id_b));
  const snapshot::ManifestDiff found = snapshot::diff_manifests(in_a, in_b);
  SnapshotDiff diff{id_a.hex(),         id_b.hex(),        {}, {}, found.bytes_shared,
                    found.bytes_only_a, found.bytes_only_b};
  for (const auto& [name, value_a, value_b] : found.fields)
    diff.fields.push_back({name, value_a, value_b});
  for (const snapshot::SectionDiff& section : found.sections) {
    diff.parts.push_back(
        {section.kind, part_of(section.in_a), part_of(section.in_b), section.is_shared()});
  }
  return diff;
}

Result<SnapshotInfo> export_snapshot(const std::string& id, const std::string& file,
                                     const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(const HeldSnapshot held, hold_snapshot(store, id));
  const Manifest& manifest = held.manifest;
  if (auto can = snapshot::check_can_travel(manifest); !can) return std::move(can).error();
  TRY_ASSIGN(ExportFile out, ExportFile::create(file));
  auto written = catalogue::write_stream(
      store, manifest, held.signature, [&out](Bytes bytes) { return out.write(bytes); },
      progress_of(options, "exporting", manifest.bytes()));
  if (written) written = out.finish();
  if (!written) return std::move(written).error();
  return info_of(manifest, !held.signature.empty());
}

Result<SnapshotInfo> import_snapshot(const std::string& file, const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  const Snapshots snapshots(store);
  TRY_ASSIGN(const auto changes,
             snapshots.change(Sharing::kShared, wait_of(options.engine.progress)));
  TRY_ASSIGN(Descriptor in, open_import(file));
  struct stat status {};
  const bool has_size = ::fstat(in.get(), &status) == 0 && S_ISREG(status.st_mode);
  catalogue::FileSource source(std::move(in), file);
  TRY_ASSIGN(const Manifest manifest,
             catalogue::import_stream(
                 store, source, progress_of(options, "importing", has_size ? status.st_size : 0)));
  TRY_ASSIGN(const std::string signature, snapshots.signature(manifest.id()));
  return info_of(manifest, !signature.empty());
}

}  // namespace stoker
