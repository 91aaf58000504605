#include "snapshot/collect.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/try.h"
#include "snapshot/arrival.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kTableSuffix = ".table";
// Kept conversations are their user's.
constexpr std::string_view kKindThatStays = "session";
// A few hundred bytes that cost time, as long as they are found under a key.
constexpr std::string_view kNotes[] = {"plans", "fingerprint"};

// "<kind>-<digest>" of a file in objects/, a table or not; none for what the store never makes.
std::optional<Section> section_of_file(std::string_view name) {
  if (name.ends_with(kTableSuffix)) name.remove_suffix(kTableSuffix.size());
  Section section;
  const size_t dash = name.size() - std::min(name.size(), Digest::kHexDigits + 1);
  if (dash == 0 || name[dash] != '-') return std::nullopt;
  const auto digest = Digest::from_hex(name.substr(dash + 1));
  section.kind = name.substr(0, dash);
  if (!digest || !is_kind(section.kind)) return std::nullopt;
  section.digest = *digest;
  return section;
}

struct FileFacts {
  int64_t bytes = 0;
  int64_t used_ns = 0;  // when it was made, or last used
};

FileFacts facts_of(const Folder& folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

// A snapshot that may go.
struct Spare {
  Digest id;
  Manifest manifest;
  int64_t used_ns = 0;
};

class Collector {
 public:
  Collector(const Store& store, const CollectOptions& options)
      : store_(store), snapshots_(store), options_(options) {}

  Result<Collected> run() {
    TRY_ASSIGN(const UseLock changes, snapshots_.change(Sharing::kAlone));
    if (!options_.dry_run) {
      out_.num_leftovers = store_.remove_leftovers() + remove_left_arrivals(store_.folders());
    }
    if (auto read = read_manifests(); !read) return std::move(read).error();
    if (auto read = read_objects(); !read) return std::move(read).error();
    if (auto dropped = drop_orphans(); !dropped) return std::move(dropped).error();
    for (const Spare& spare : spares_by_use()) {
      if (is_small_enough()) break;
      if (auto dropped = drop(spare); !dropped) return std::move(dropped).error();
    }
    if (auto cleaned = drop_keys_and_locks(); !cleaned) return std::move(cleaned).error();
    out_.bytes_left = total_;
    return std::move(out_);
  }

 private:
  bool is_small_enough() const { return options_.max_bytes > 0 && total_ <= options_.max_bytes; }

  // Sorts the snapshots into those that stay and those that may go.
  Result<void> read_manifests() {
    std::map<std::string, std::vector<Spare>> groups;
    TRY_ASSIGN(const std::vector<Digest> ids, snapshots_.ids());
    for (const Digest& id : ids) {
      auto manifest = snapshots_.read(id);
      if (manifest) {
        const std::string group = manifest->model_fingerprint.hex() + manifest->host_isa;
        const int64_t used = facts_of(store_.folders().use, id.hex()).used_ns;
        groups[group].push_back({id, *std::move(manifest), used});
      } else if (manifest.error().code == ErrorCode::kCorruptData) {
        if (auto gone = forget(id); !gone) return gone;
        out_.damaged.push_back(manifest.error().message);
      } else {
        return manifest.error();
      }
    }
    for (auto& [name, group] : groups) keep_newest(group);
    return {};
  }

  void keep_newest(std::vector<Spare>& group) {
    std::ranges::sort(group, [](const Spare& a, const Spare& b) {
      return std::pair(a.manifest.created, a.id.bytes) > std::pair(b.manifest.created, b.id.bytes);
    });
    for (size_t i = 0; i < group.size(); ++i) {
      const bool stays = static_cast<int64_t>(i) < options_.keep || is_in_use(group[i].id);
      for (const Section& section : group[i].manifest.sections) ++num_users_[section.object()];
      if (!stays) spares_.push_back(std::move(group[i]));
    }
  }

  bool is_in_use(const Digest& id) const { return !snapshots_.use(id, Sharing::kAlone); }

  Result<void> read_objects() {
    TRY_ASSIGN(const std::vector<std::string> names, store_.folders().objects.names());
    for (const std::string& name : names) {
      const auto section = section_of_file(name);
      if (!section) continue;
      const int64_t bytes = facts_of(store_.folders().objects, name).bytes;
      objects_[section->object()] += bytes;
      total_ += bytes;
    }
    return {};
  }

  // Objects that are notes and have a key.
  Result<std::set<std::string>> notes_with_keys() const {
    const Folder& keys = store_.folders().keys;
    TRY_ASSIGN(const std::vector<std::string> names, keys.names());
    std::set<std::string> notes;
    for (const std::string& name : names) {
      const auto named = section_of_file(name);
      if (!named || std::ranges::find(kNotes, named->kind) == std::end(kNotes)) continue;
      const auto text = keys.read_file(name, kMaxKeyFileBytes);
      const auto section = text ? parse_key_file(*text) : text.error();
      if (section) notes.insert(section->object());
    }
    return notes;
  }

  // Objects of no snapshot, the longest unused first.
  Result<void> drop_orphans() {
    TRY_ASSIGN(const std::set<std::string> notes, notes_with_keys());
    std::vector<std::pair<int64_t, std::string>> orphans;
    for (const auto& [name, bytes] : objects_) {
      if (num_users_.contains(name) || notes.contains(name) ||
          section_of_file(name)->kind == kKindThatStays)
        continue;
      orphans.emplace_back(facts_of(store_.folders().objects, name).used_ns, name);
    }
    std::ranges::sort(orphans);
    for (const auto& [used, name] : orphans) {
      if (is_small_enough()) break;
      if (auto dropped = drop_object(name); !dropped) return dropped;
    }
    return {};
  }

  std::vector<Spare> spares_by_use() {
    std::ranges::sort(spares_, [](const Spare& a, const Spare& b) {
      return std::pair(a.used_ns, a.id.bytes) < std::pair(b.used_ns, b.id.bytes);
    });
    return std::move(spares_);
  }

  // An engine that starts now takes the lock first and the manifest then.
  Result<void> drop(const Spare& spare) {
    const auto lock = snapshots_.use(spare.id, Sharing::kAlone);
    if (!lock) return {};
    if (auto gone = forget(spare.id); !gone) return gone;
    if (!options_.dry_run) lock->remove_file();
    out_.snapshots.push_back(spare.id);
    for (const Section& section : spare.manifest.sections) {
      const std::string name = section.object();
      if (--num_users_[name] > 0) continue;
      num_users_.erase(name);
      if (auto dropped = drop_object(name); !dropped) return dropped;
    }
    return {};
  }

  Result<void> forget(const Digest& id) const {
    return options_.dry_run ? Result<void>() : snapshots_.remove(id);
  }

  Result<void> drop_object(const std::string& name) {
    const auto entry = objects_.find(name);
    if (entry == objects_.end()) return {};
    if (!options_.dry_run) {
      const Folder& folder = store_.folders().objects;
      auto removed = folder.remove_file(name);
      if (removed) removed = folder.remove_file(name + std::string(kTableSuffix));
      if (!removed) return removed;
    }
    out_.objects.push_back(name);
    out_.bytes += entry->second;
    total_ -= entry->second;
    objects_.erase(entry);
    return {};
  }

  // Keys of objects that are not there, and what belongs to no snapshot in the other folders.
  Result<void> drop_keys_and_locks() const {
    if (options_.dry_run) return {};
    const StoreFolders& folders = store_.folders();
    TRY_ASSIGN(const std::vector<std::string> keys, folders.keys.names());
    for (const std::string& name : keys) {
      const auto text = folders.keys.read_file(name, kMaxKeyFileBytes);
      const auto section = text ? parse_key_file(*text) : text.error();
      if (section && objects_.contains(section->object())) continue;
      if (!section_of_file(name)) continue;  // never made by a store
      if (auto removed = folders.keys.remove_file(name); !removed) return removed;
    }
    if (auto dropped = drop_strays(); !dropped) return dropped;
    auto synced = folders.objects.sync();
    if (synced) synced = folders.keys.sync();
    if (synced) synced = folders.snapshots.sync();
    return synced;
  }

  // Signatures and locks of snapshots that are gone.
  Result<void> drop_strays() const {
    const StoreFolders& folders = store_.folders();
    TRY_ASSIGN(const std::vector<Digest> ids, snapshots_.ids());
    const auto is_gone = [&ids](std::string_view hex) {
      const auto id = Digest::from_hex(hex);
      return id && std::ranges::find(ids, *id) == ids.end();
    };
    TRY_ASSIGN(const std::vector<std::string> names, folders.snapshots.names());
    for (const std::string& name : names) {
      if (!name.ends_with(".sig") || !is_gone(name.substr(0, name.size() - 4))) continue;
      if (auto removed = folders.snapshots.remove_file(name); !removed) return removed;
    }
    TRY_ASSIGN(const std::vector<std::string> locks, folders.use.names());
    for (const std::string& name : locks) {
      if (!is_gone(name)) continue;
      if (const auto lock = UseLock::try_take(folders.use, name, Sharing::kAlone))
        lock->remove_file();
    }
    return {};
  }

  const Store& store_;
  const Snapshots snapshots_;
  const CollectOptions& options_;
  Collected out_;
  std::vector<Spare> spares_;
  std::map<std::string, int> num_users_;    // of objects, by snapshots that are there
  std::map<std::string, int64_t> objects_;  // bytes with the table
  int64_t total_ = 0;
};

}  // namespace

Result<Collected> collect(const Store& store, const CollectOptions& options) {
  if (options.keep < 0 || options.max_bytes < 0) {
    return Error{ErrorCode::kInvalidArgument, "keep and max_bytes: expected 0 or more",
                 options.keep < 0 ? "keep" : "max_bytes"};
  }
  return Collector(store, options).run();
}

}  // namespace stoker::snapshot
