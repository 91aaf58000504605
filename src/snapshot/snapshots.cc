#include "snapshot/snapshots.h"

#include <algorithm>
#include <utility>

#include "base/try.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kManifestSuffix = ".manifest";
constexpr std::string_view kSignatureSuffix = ".sig";
constexpr const char* kChangeLock = "changes";
constexpr size_t kMaxSignatureBytes = 4096;

std::string manifest_name(const Digest& id) {
  return id.hex() + std::string(kManifestSuffix);
}

std::string signature_name(const Digest& id) {
  return id.hex() + std::string(kSignatureSuffix);
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A file of the folder of snapshots, in one step and for good.
Result<void> place(const StoreFolders& folders, const WorkFolder& work, const std::string& name,
                   const std::string& text) {
  if (auto written = work.folder().write_file(name, text); !written) return written;
  return work.folder().move_file(name, folders.snapshots, name);
}

}  // namespace

Result<std::vector<Digest>> Snapshots::ids() const {
  TRY_ASSIGN(const std::vector<std::string> names, store_->folders().snapshots.names());
  std::vector<Digest> ids;
  for (const std::string& name : names) {
    if (!name.ends_with(kManifestSuffix)) continue;
    const auto id = Digest::from_hex(name.substr(0, name.size() - kManifestSuffix.size()));
    if (id) ids.push_back(*id);
  }
  std::ranges::sort(ids, {}, &Digest::bytes);
  return ids;
}

Result<Digest> Snapshots::id_of(const std::string& start) const {
  if (start.empty() || start.size() > Digest::kHexDigits || !is_hex(start)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "expected the first of the 32 hexadecimal digits of a snapshot, found '" + start + "'",
        "id"};
  }
  TRY_ASSIGN(const std::vector<Digest> all, ids());
  std::vector<Digest> fit;
  std::ranges::copy_if(all, std::back_inserter(fit),
                       [&](const Digest& id) { return id.hex().starts_with(start); });
  if (fit.size() == 1) return fit.front();
  const std::string found = fit.empty() ? "none" : std::to_string(fit.size());
  return Error{fit.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
               store_->folders().snapshots.path() +
                   ": expected one snapshot whose id begins with " + start + ", found " + found,
               "id"};
}

Result<std::string> Snapshots::text(const Digest& id) const {
  return store_->folders().snapshots.read_file(manifest_name(id), kMaxManifestBytes);
}

Result<Manifest> Snapshots::read(const Digest& id) const {
  const std::string path = store_->folders().snapshots.path_of(manifest_name(id));
  TRY_ASSIGN(const std::string bytes, text(id));
  auto manifest = parse_manifest(bytes).with(path);
  if (!manifest || manifest->id() == id) return manifest;
  return Error{ErrorCode::kCorruptData,
               path + ": expected the snapshot of its name, found " + manifest->id().hex(), ""};
}

std::optional<MissingPart> Snapshots::missing_part(
    const Manifest& manifest, std::span<const std::string_view> but_for) const {
  for (const Section& section : manifest.sections) {
    if (std::ranges::find(but_for, section.kind) != but_for.end()) continue;
    if (const auto object = store_->map(section); !object)
      return MissingPart{section, object.error()};
  }
  return std::nullopt;
}

Result<UseLock> Snapshots::change(Sharing sharing, const WaitSink& wait) const {
  if (auto checked = store_->check_writable(); !checked) return std::move(checked).error();
  return UseLock::take(store_->folders().use, kChangeLock, sharing, wait);
}

Result<UseLock> Snapshots::use(const Digest& id, Sharing sharing) const {
  return UseLock::try_take(store_->folders().use, id.hex(), sharing);
}

Result<void> Snapshots::publish(const Manifest& manifest, const std::string& signature) const {
  if (auto checked = check_manifest(manifest); !checked) return checked;
  if (auto checked = store_->check_writable(); !checked) return checked;
  if (auto missing = missing_part(manifest)) return std::move(missing->why);
  const Digest id = manifest.id();
  const StoreFolders& folders = store_->folders();
  TRY_ASSIGN(const WorkFolder work, WorkFolder::create(folders.tmp));
  if (!signature.empty()) {
    if (auto placed = place(folders, work, signature_name(id), signature); !placed) return placed;
  }
  // The same snapshot that was made at another time has another text, which is not what was signed.
  const std::string text_to_be = manifest_text(manifest);
  const auto there = text(id);
  const bool is_signed_text = signature.empty() || (there && *there == text_to_be);
  if (!read(id) || !is_signed_text) {
    auto placed = place(folders, work, manifest_name(id), text_to_be);
    if (!placed) return placed;
  }
  return folders.snapshots.sync();
}

Result<void> Snapshots::remove(const Digest& id) const {
  if (auto checked = store_->check_writable(); !checked) return checked;
  const Folder& folder = store_->folders().snapshots;
  auto removed = folder.remove_file(manifest_name(id));
  if (removed) removed = folder.remove_file(signature_name(id));
  if (removed) removed = folder.sync();
  return removed;
}

Result<std::string> Snapshots::signature(const Digest& id) const {
  auto text = store_->folders().snapshots.read_file(signature_name(id), kMaxSignatureBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::string();
  return text;
}

}  // namespace stoker::snapshot
