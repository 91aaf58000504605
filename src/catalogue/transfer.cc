#include "catalogue/transfer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/try.h"
#include "catalogue/snapshot_stream.h"
#include "snapshot/arrival.h"

namespace stoker::catalogue {
namespace {

using snapshot::Arrival;
using snapshot::Digest;
using snapshot::Manifest;
using snapshot::Section;
using snapshot::Store;

constexpr int kMaxTries = 5;  // in a row without a byte
constexpr std::chrono::milliseconds kFirstPause{250};
constexpr const char* kIndexLock = "index";
constexpr mode_t kFolderForAll = 0755;
constexpr mode_t kFileForAll = 0444;
constexpr size_t kTableReadBytes = size_t{1} << 20;

// Reads a chunk table, with memory for what comes alone.
Result<std::string> read_table_text(Source& source, const Section& section) {
  const int64_t size = section.num_chunks() * static_cast<int64_t>(sizeof(uint64_t));
  TRY_ASSIGN(const auto bytes, source.open("objects/" + snapshot::table_name(section), 0, size));
  std::string table;
  while (static_cast<int64_t>(table.size()) < size) {
    const size_t before = table.size();
    table.resize(std::min(static_cast<size_t>(size), before + kTableReadBytes));
    auto came = read_exactly(
        *bytes, {reinterpret_cast<uint8_t*>(table.data()) + before, table.size() - before});
    if (!came) return came.error().with(snapshot::table_name(section));
  }
  return table;
}

// Brings objects one after the other, and adds up what came.
class Fetcher {
 public:
  Fetcher(const Store& store, Source& source, int64_t num_bytes, const TransferSinks& sinks)
      : store_(store), source_(source), num_bytes_(num_bytes), sinks_(sinks) {}

  Result<void> fetch(const Section& section) {
    TRY_ASSIGN(Arrival arrival, Arrival::begin(store_, section, Arrival::Left::kKept, sinks_.wait));
    if (arrival.is_there()) return {};
    add(arrival.num_bytes());
    int num_tries = 0;
    while (true) {
      const int64_t before = arrival.num_bytes();
      auto came = fetch_rest(arrival);
      if (came) return arrival.place();
      if (came.error().code != ErrorCode::kPeerLost) return came;
      num_tries = arrival.num_bytes() > before ? 1 : num_tries + 1;
      if (num_tries == kMaxTries) return came;
      std::this_thread::sleep_for(kFirstPause * (1 << num_tries));
    }
  }

 private:
  Result<void> fetch_rest(Arrival& arrival) {
    const Section& section = arrival.section();
    if (!arrival.has_table()) {
      TRY_ASSIGN(const std::string table, read_table_text(source_, section));
      if (auto taken = arrival.set_table(table); !taken) return taken;
    }
    if (arrival.is_whole()) return {};
    TRY_ASSIGN(const auto bytes,
               source_.open("objects/" + section.object(), arrival.num_bytes(), section.bytes));
    while (!arrival.is_whole()) {
      chunk_.resize(static_cast<size_t>(arrival.next_chunk_bytes()));
      auto came = read_exactly(*bytes, chunk_);
      if (came) came = arrival.add_chunk(chunk_);
      if (!came) return std::move(came).with(section.object());
      add(static_cast<int64_t>(chunk_.size()));
    }
    return {};
  }

  void add(int64_t num_bytes) {
    num_done_ += num_bytes;
    if (sinks_.progress && num_bytes_ > 0)
      sinks_.progress(static_cast<double>(num_done_) / static_cast<double>(num_bytes_));
  }

  const Store& store_;
  Source& source_;
  const int64_t num_bytes_;
  const TransferSinks& sinks_;
  int64_t num_done_ = 0;
  std::vector<uint8_t> chunk_;
};

Result<void> let_all_read(const Folder& folder, const std::string& name) {
  if (::fchmodat(folder.fd(), name.c_str(), kFileForAll, 0) == 0 || errno == ENOENT) return {};
  return system_error(folder.path_of(name), "cannot be made readable");
}

// The entries of all manifests that can be read.
Result<std::vector<IndexEntry>> entries_of(const Store& store) {
  const snapshot::Snapshots snapshots(store);
  TRY_ASSIGN(const std::vector<Digest> ids, snapshots.ids());
  std::vector<IndexEntry> entries;
  for (const Digest& id : ids) {
    const auto manifest = snapshots.read(id);
    if (manifest) entries.push_back({id, manifest->model_name});
  }
  if (entries.size() <= kMaxIndexEntries) return entries;
  return Error{ErrorCode::kInvalidArgument,
               store.dir() + ": expected at most " + std::to_string(kMaxIndexEntries) +
                   " snapshots, found " + std::to_string(entries.size()),
               ""};
}

Result<void> write_index(const Store& store) {
  TRY_ASSIGN(const std::vector<IndexEntry> entries, entries_of(store));
  TRY_ASSIGN(const Folder root, Folder::open(store.dir()));
  TRY_ASSIGN(const snapshot::WorkFolder work, snapshot::WorkFolder::create(store.folders().tmp));
  auto done = work.folder().write_file(kIndexName, index_text(entries));
  if (done) done = let_all_read(work.folder(), kIndexName);
  if (done) done = work.folder().move_file(kIndexName, root, kIndexName);
  if (done) done = root.sync();
  return done;
}

}  // namespace

Result<std::vector<IndexEntry>> read_index(Source& source) {
  TRY_ASSIGN(const std::string text, text_of(source, kIndexName, kMaxIndexBytes));
  return parse_index(text).with(kIndexName);
}

Result<Listed> read_listed(Source& source, const Digest& id) {
  const std::string path = "snapshots/" + id.hex();
  TRY_ASSIGN(const std::string text,
             text_of(source, path + ".manifest", snapshot::kMaxManifestBytes));
  Listed listed;
  TRY_ASSIGN(listed.manifest, snapshot::parse_manifest(text).with(path + ".manifest"));
  if (listed.manifest.id() != id) {
    return Error{ErrorCode::kCorruptData,
                 path + ": expected the snapshot of its name, found " + listed.manifest.id().hex(),
                 ""};
  }
  auto signature = text_of(source, path + ".sig", kMaxSignatureBytes);
  if (!signature && signature.error().code != ErrorCode::kNotFound)
    return std::move(signature).error();
  if (signature) listed.signature = *std::move(signature);
  return listed;
}

int64_t missing_bytes(const Store& store, const Manifest& manifest) {
  int64_t sum = 0;
  for (const Section& section : manifest.sections) {
    if (!store.open_object(section)) sum += section.bytes;
  }
  return sum;
}

Result<void> fetch_snapshot(const Store& store, Source& source, const Listed& listed,
                            const TransferSinks& sinks) {
  if (auto checked = snapshot::check_can_travel(listed.manifest); !checked) return checked;
  Fetcher fetcher(store, source, missing_bytes(store, listed.manifest), sinks);
  for (const Section& section : listed.manifest.sections) {
    if (auto fetched = fetcher.fetch(section); !fetched) return fetched;
  }
  return snapshot::Snapshots(store).publish(listed.manifest, listed.signature);
}

Result<void> make_catalogue(const std::string& dir) {
  struct stat status {};
  if (::stat((dir + "/objects").c_str(), &status) == 0) return {};
  for (const char* const part : {"", "/objects", "/snapshots"}) {
    const std::string path = dir + part;
    if (::mkdir(path.c_str(), kFolderForAll) != 0 && errno != EEXIST)
      return system_error(path, "cannot be created");
  }
  return {};
}

Result<void> list_snapshot(const Store& catalogue, const Manifest& manifest) {
  const snapshot::StoreFolders& folders = catalogue.folders();
  for (const Section& section : manifest.sections) {
    auto done = let_all_read(folders.objects, section.object());
    if (done) done = let_all_read(folders.objects, snapshot::table_name(section));
    if (!done) return done;
  }
  const std::string id = manifest.id().hex();
  for (const char* const suffix : {".manifest", ".sig"}) {
    if (auto done = let_all_read(folders.snapshots, id + suffix); !done) return done;
  }
  TRY_ASSIGN(const auto lock,
             snapshot::UseLock::take(folders.use, kIndexLock, snapshot::Sharing::kAlone,
                                     [](const std::string&) { return true; }));
  return write_index(catalogue);
}

}  // namespace stoker::catalogue
