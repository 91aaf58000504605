#include "server/file_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace stoker {
namespace {

constexpr const char* kDraftSuffix = ".part";
constexpr size_t kMaxDescriptionBytes = size_t{64} << 10;

Json file_json(const StoredFile& file) {
  Json out = Json::object();
  out.set("id", Json::string(file.id));
  out.set("object", Json::string("file"));
  out.set("bytes", Json::integer(file.num_bytes));
  out.set("created_at", Json::integer(file.created_at));
  out.set("expires_at", Json());
  out.set("filename", Json::string(file.filename));
  out.set("purpose", Json::string(file.purpose));
  out.set("status", Json::string("processed"));
  out.set("status_details", Json());
  return out;
}

// What file_json wrote; nothing for what it cannot have written.
std::optional<StoredFile> parse_description(std::string_view text, const DescriptionName& parts) {
  const auto json = Json::parse(text);
  if (!json) return std::nullopt;
  const auto member = [&json](const char* name) {
    const Json* found = json->find(name);
    return found == nullptr ? Json() : *found;
  };
  const auto num_bytes = member("bytes").as_int();
  const auto created_at = member("created_at").as_int();
  const bool is_whole = num_bytes && created_at && member("filename").is_string() &&
                        member("purpose").is_string() && member("id").as_string() == parts.id;
  if (!is_whole) return std::nullopt;
  return StoredFile{
      parts.id,   parts.owner, member("filename").as_string(), member("purpose").as_string(),
      *num_bytes, *created_at};
}

}  // namespace

std::string stored_file_json(const StoredFile& file) {
  return file_json(file).dump();
}

// ---- Drafts

FileDraft::FileDraft(const StateFolder& folder, std::string id, Descriptor content)
    : folder_(&folder), id_(std::move(id)), content_(std::move(content)) {}

FileDraft::FileDraft(FileDraft&& other) noexcept
    : folder_(std::exchange(other.folder_, nullptr)),
      id_(std::move(other.id_)),
      content_(std::move(other.content_)),
      num_bytes_(other.num_bytes_) {}

FileDraft::~FileDraft() {
  // What cannot be removed now goes when the store is opened again.
  if (folder_ != nullptr) (void)folder_->files().remove_file(id_ + kDraftSuffix);
}

Result<void> FileDraft::append(std::string_view bytes) {
  const Bytes content(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (const int code = write_at(content_.get(), num_bytes_, content); code != 0)
    return system_error(folder_->path_of(id_ + kDraftSuffix), "cannot be written", code);
  num_bytes_ += static_cast<int64_t>(bytes.size());
  return {};
}

// ---- The store

FileStore::FileStore(const StateFolder& folder, FileStoreOptions options)
    : folder_(folder), options_(std::move(options)) {}

Result<std::unique_ptr<FileStore>> FileStore::open(const StateFolder& folder,
                                                   FileStoreOptions options) {
  std::unique_ptr<FileStore> store(new FileStore(folder, std::move(options)));
  if (auto read = store->read(); !read) return std::move(read).error();
  return store;
}

Result<void> FileStore::read() {
  TRY_ASSIGN(const std::vector<std::string> names, folder_.files().names());
  std::set<std::string> described;  // damaged descriptions keep their contents
  for (const std::string& name : names) {
    const auto parts = parse_description_name(name, kFilePrefix);
    if (!parts) continue;
    described.insert(parts->id);
    if (auto read = read_description(name, *parts); !read && options_.log)
      options_.log(LogLevel::kWarning, "file ignored reason=" + json_quote(read.error().message));
  }
  for (const std::string& name : names) {
    const std::string id = name.substr(0, name.find('.'));
    const bool is_content = name == id || name == id + kDraftSuffix;
    const bool is_left_over =
        is_stored_id(id, kFilePrefix) && is_content && (name != id || !described.contains(id));
    if (!is_left_over) continue;
    if (auto removed = folder_.files().remove_file(name); !removed) return removed;
  }
  return {};
}

Result<void> FileStore::read_description(const std::string& name, const DescriptionName& parts) {
  TRY_ASSIGN(const std::string text, folder_.files().read_file(name, kMaxDescriptionBytes));
  auto file = parse_description(text, parts);
  if (!file) {
    return Error{ErrorCode::kCorruptData,
                 folder_.path_of(name) + ": expected the description of a file, found damage", ""};
  }
  files_[parts.id] = *std::move(file);
  return {};
}

std::string FileStore::new_id() {
  const std::scoped_lock lock(mutex_);
  return kFilePrefix + ids_.next();
}

Result<FileDraft> FileStore::begin_upload() {
  const std::string id = new_id();
  const std::scoped_lock lock(mutex_);
  if (files_.size() >= options_.max_files) {
    return Error{ErrorCode::kOverloaded,
                 "expected fewer than " + std::to_string(options_.max_files) +
                     " files here, found as many; delete some",
                 ""};
  }
  return begin(id);
}

Result<FileDraft> FileStore::begin(const std::string& id) const {
  const std::string name = id + kDraftSuffix;
  if (auto removed = folder_.files().remove_file(name); !removed) return std::move(removed).error();
  TRY_ASSIGN(Descriptor content, folder_.files().create_file(name));
  return FileDraft(folder_, id, std::move(content));
}

// The content comes first: a description is of something that is there.
Result<StoredFile> FileStore::publish(FileDraft draft, StoredFile about) {
  about.id = draft.id_;
  about.num_bytes = draft.num_bytes_;
  const Folder& files = folder_.files();
  const std::string draft_name = draft.id_ + kDraftSuffix;
  if (auto synced = sync_file(draft.content_.get(), files.path_of(draft_name)); !synced)
    return std::move(synced).error();
  if (auto moved = files.move_file(draft_name, files, about.id); !moved)
    return std::move(moved).error();
  draft.folder_ = nullptr;
  auto saved = folder_.save(description_name(about.id, about.owner), stored_file_json(about));
  if (!saved) return std::move(saved).error();
  const std::scoped_lock lock(mutex_);
  files_[about.id] = about;
  return about;
}

std::optional<StoredFile> FileStore::find(const std::string& id, const std::string& owner) const {
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.owner != owner) return std::nullopt;
  return found->second;
}

std::vector<StoredFile> FileStore::list(const std::string& owner) const {
  std::vector<StoredFile> found;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (file.owner == owner) found.push_back(file);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const StoredFile& a, const StoredFile& b) {
    return a.created_at > b.created_at;
  });
  return found;
}

Result<Descriptor> FileStore::open_content(const StoredFile& file) const {
  return folder_.files().open_file(file.id, file.num_bytes);
}

// The description goes first: a content without one is removed at the next start.
Result<void> FileStore::remove(const StoredFile& file) {
  {
    const std::scoped_lock lock(mutex_);
    files_.erase(file.id);
  }
  const Folder& files = folder_.files();
  if (auto removed = files.remove_file(description_name(file.id, file.owner)); !removed)
    return removed;
  if (auto synced = files.sync(); !synced) return synced;
  return files.remove_file(file.id);
}

}  // namespace stoker
