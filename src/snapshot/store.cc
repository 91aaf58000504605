#include "snapshot/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/try.h"
#include "snapshot/handover.h"
#include "snapshot/pin_record.h"

namespace stoker::snapshot {
namespace {

// Made at once, so that a store on a read-only mount has them.
constexpr const char* kFolders[] = {"objects", "keys", "tmp", "snapshots", "use"};

// Makes a folder and those above it. What cannot be made is told by who opens it.
void make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1); true; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), S_IRWXU);
    if (end == std::string::npos) return;
  }
}

// A folder of the store, or why there is none and none could be made.
Result<Folder> open_part(const Folder& root, const std::string& name) {
  const auto made = root.make_folder(name);
  auto folder = root.open_folder(name);
  if (!folder && folder.error().code == ErrorCode::kNotFound && !made) return made.error();
  return folder;
}

Result<std::unique_ptr<const StoreFolders>> open_folders(const std::string& dir) {
  make_folders(dir);
  TRY_ASSIGN(const Folder root, Folder::open(dir));
  for (const char* const name : kFolders) (void)root.make_folder(name);
  TRY_ASSIGN(Folder objects, open_part(root, "objects"));
  TRY_ASSIGN(Folder keys, open_part(root, "keys"));
  TRY_ASSIGN(Folder tmp, open_part(root, "tmp"));
  TRY_ASSIGN(Folder snapshots, open_part(root, "snapshots"));
  TRY_ASSIGN(Folder use, open_part(root, "use"));
  (void)root.sync();  // for what was made in it; of no use to who only reads
  return std::unique_ptr<const StoreFolders>(new StoreFolders{
      std::move(objects), std::move(keys), std::move(tmp), std::move(snapshots), std::move(use)});
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<void> check_kind(const std::string& kind) {
  Section section;
  section.kind = kind;
  section.bytes = 1;
  return check_section(section);
}

}  // namespace

Result<std::string> Store::default_dir() {
  if (const std::string dir = variable("STOKER_STORE"); !dir.empty()) return dir;
  // A relative path there is to be ignored, says the XDG base directory specification.
  if (const std::string cache = variable("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return cache + "/stoker";
  }
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/stoker";
  return Error{ErrorCode::kNotFound,
               "expected STOKER_STORE, XDG_CACHE_HOME or HOME in the environment, found none", ""};
}

Store::Store(std::string dir, std::unique_ptr<const StoreFolders> folders)
    : dir_(std::move(dir)), folders_(std::move(folders)) {
  for (const Folder* folder : {&folders_->objects, &folders_->keys, &folders_->tmp,
                               &folders_->snapshots, &folders_->use}) {
    auto checked = folder->check_writable();
    if (!checked && !read_only_) read_only_ = std::move(checked).error();
  }
}

Result<Store> Store::open(const std::string& dir) {
  TRY_ASSIGN(auto folders, open_folders(dir));
  return Store(dir, std::move(folders));
}

Result<void> Store::check_writable() const {
  if (!read_only_) return {};
  return read_only_->with("expected a store that can be written");
}

Found Store::find(const std::string& kind, const Digest& key) const {
  const std::string name = key_name(kind, key);
  if (auto checked = check_kind(kind); !checked) return {std::nullopt, checked.error().message};
  const auto text = folders_->keys.read_file(name, kMaxKeyFileBytes);
  if (!text) return {std::nullopt, text.error().message};
  auto section = parse_key_file(*text);
  const std::string path = folders_->keys.path_of(name);
  if (!section) return {std::nullopt, path + ": " + section.error().message};
  if (section->kind != kind || section->key != key) {
    return {std::nullopt, path + ": expected the key of its name, found " +
                              key_name(section->kind, section->key)};
  }
  return {*std::move(section), ""};
}

Result<std::vector<Section>> Store::all(const std::string& kind) const {
  if (auto checked = check_kind(kind); !checked) return std::move(checked).error();
  TRY_ASSIGN(const std::vector<std::string> names, folders_->keys.names());
  std::vector<Section> sections;
  for (const std::string& name : names) {
    if (name.size() != kind.size() + 1 + Digest::kHexDigits || !name.starts_with(kind)) continue;
    const std::optional<Digest> key = Digest::from_hex(name.substr(kind.size() + 1));
    if (!key) continue;
    if (Found found = find(kind, *key); found.section)
      sections.push_back(*std::move(found.section));
  }
  return sections;
}

Result<KeyLock> Store::lock(const std::string& kind, const Digest& key,
                            const WaitSink& wait) const {
  if (auto checked = check_kind(kind); !checked) return std::move(checked).error();
  if (auto checked = check_writable(); !checked) return std::move(checked).error();
  return KeyLock::take(folders_->tmp, key_name(kind, key), wait);
}

Result<ObjectWriter> Store::create(const std::string& kind, int64_t bytes) const {
  if (auto checked = check_writable(); !checked) return std::move(checked).error();
  return ObjectWriter::create(*folders_, kind, bytes);
}

Result<Section> Store::put_text(const std::string& kind, const Digest& key,
                                const std::string& text) const {
  TRY_ASSIGN(ObjectWriter writer, create(kind, static_cast<int64_t>(text.size())));
  if (auto written = writer.write(0, bytes_of(text)); !written) return std::move(written).error();
  return writer.publish(key, 1);
}

Result<std::string> Store::text_of(const Section& section, size_t max_bytes) const {
  if (section.bytes > static_cast<int64_t>(max_bytes)) {
    return Error{ErrorCode::kCorruptData,
                 section.object() + ": expected at most " + std::to_string(max_bytes) +
                     " bytes, found " + std::to_string(section.bytes),
                 ""};
  }
  TRY_ASSIGN(const Object object, map(section));
  if (auto good = object.verify(1); !good) return std::move(good).error();
  return std::string(object.bytes().begin(), object.bytes().end());
}

Result<void> Store::remove(const Section& section) const {
  if (auto checked = check_section(section); !checked) return checked;
  if (auto checked = check_writable(); !checked) return checked;
  auto removed = folders_->keys.remove_file(key_name(section.kind, section.key));
  if (removed) removed = folders_->keys.sync();
  return removed ? remove_object(section) : removed;
}

Result<void> Store::remove_object(const Section& section) const {
  if (auto checked = check_section(section); !checked) return checked;
  if (auto checked = check_writable(); !checked) return checked;
  auto removed = folders_->objects.remove_file(section.object());
  if (removed) removed = folders_->objects.remove_file(table_name(section));
  if (removed) removed = folders_->objects.sync();
  return removed;
}

int Store::remove_leftovers() const {
  remove_left_pins(folders_->use);
  remove_left_sockets(folders_->use);
  return snapshot::remove_leftovers(folders_->tmp);
}

}  // namespace stoker::snapshot
