#include "api/kept_prefixes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "api/snapshot_parts.h"
#include "base/machine.h"
#include "base/try.h"
#include "snapshot/object_mapping.h"

namespace stoker {
namespace {

using snapshot::Object;
using snapshot::Section;
using snapshot::Store;

constexpr std::string_view kPrefixesMagic = "stokkept";
constexpr int64_t kPrefixesVersion = 1;
constexpr size_t kPrefixesVersionAt = 8;
constexpr size_t kPrefixesCountAt = 16;
constexpr size_t kPrefixesSizesAt = 24;
constexpr mode_t kOthersBits = S_IRWXG | S_IRWXO;

Error damaged_prefixes(const std::string& what) {
  return {ErrorCode::kCorruptData, "kept prefixes: " + what, ""};
}

// Of this very user, and to be read by nobody else: root's, too, are root's alone.
Result<void> check_owner(const snapshot::ObjectFile& object) {
  struct stat status {};
  if (::fstat(object.file.get(), &status) != 0)
    return system_error(object.path, "cannot be examined");
  if (status.st_uid == ::geteuid() && (status.st_mode & kOthersBits) == 0) return {};
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
  return Error{ErrorCode::kIo,
               object.path + ": expected a file of user " + std::to_string(::geteuid()) +
                   " that nobody else may read, found one of user " +
                   std::to_string(status.st_uid) + " with mode " + mode,
               ""};
}

Result<Object> map_own(const Store& store, const Section& section) {
  TRY_ASSIGN(snapshot::ObjectFile file, store.open_object(section));
  if (auto checked = check_owner(file); !checked) return std::move(checked).error();
  TRY_ASSIGN(snapshot::ObjectMapping mapping,
             snapshot::ObjectMapping::map(file.file.get(), section.bytes, file.path));
  return Object(std::move(file), std::move(mapping));
}

}  // namespace

std::string kept_prefixes_head(std::span<const KeptPrefix> prefixes) {
  std::string head(kPrefixesMagic);
  append_le(head, kPrefixesVersion);
  append_le(head, static_cast<int64_t>(prefixes.size()));
  for (const KeptPrefix& prefix : prefixes)
    append_le(head, static_cast<int64_t>(prefix.bytes.size()));
  return head;
}

Result<std::vector<Bytes>> split_kept_prefixes(Bytes bytes) {
  if (bytes.size() < kPrefixesSizesAt ||
      !std::equal(kPrefixesMagic.begin(), kPrefixesMagic.end(), bytes.begin()))
    return damaged_prefixes("expected them to begin with " + std::string(kPrefixesMagic));
  const auto version = load_le<int64_t>(bytes.data() + kPrefixesVersionAt);
  if (version != kPrefixesVersion) {
    return Error{ErrorCode::kUnsupported,
                 "kept prefixes: expected version " + std::to_string(kPrefixesVersion) +
                     ", found " + std::to_string(version),
                 ""};
  }
  const auto count = load_le<int64_t>(bytes.data() + kPrefixesCountAt);
  const auto size_bytes = static_cast<int64_t>(sizeof(int64_t));
  const auto room = static_cast<int64_t>(bytes.size() - kPrefixesSizesAt);
  if (count < 1 || count > kMaxSavedPrefixes || count * size_bytes > room)
    return damaged_prefixes("expected 1 to 256 of them, with their sizes, found " +
                            std::to_string(count));
  Bytes rest = bytes.subspan(kPrefixesSizesAt + static_cast<size_t>(count * size_bytes));
  std::vector<Bytes> prefixes;
  for (int64_t i = 0; i < count; ++i) {
    const auto size = load_le<int64_t>(bytes.data() + kPrefixesSizesAt + i * size_bytes);
    if (size < 1 || size > static_cast<int64_t>(rest.size()))
      return damaged_prefixes("expected a size of 1 to " + std::to_string(rest.size()) +
                              " bytes, found " + std::to_string(size));
    prefixes.push_back(rest.first(static_cast<size_t>(size)));
    rest = rest.subspan(static_cast<size_t>(size));
  }
  if (!rest.empty())
    return damaged_prefixes("expected nothing behind the last one, found " +
                            std::to_string(rest.size()) + " bytes");
  return prefixes;
}

Result<std::vector<KeptPrefix>> take_prefixes(Engine& engine, int max_prefixes) {
  TRY_ASSIGN(const auto prompts, engine.cached_prefixes(static_cast<size_t>(max_prefixes)));
  std::vector<KeptPrefix> all;
  int64_t left = kMaxSavedPrefixBytes;
  for (const std::vector<int32_t>& ids : prompts) {
    auto kept = engine.save_prefix(ids);
    // It went meanwhile, or has in an answer an id that no prompt may have.
    const bool is_passed_over = !kept && (kept.error().code == ErrorCode::kNotFound ||
                                          kept.error().code == ErrorCode::kUnsupported);
    if (is_passed_over) continue;
    if (!kept) return std::move(kept).error();
    left -= static_cast<int64_t>(kept->bytes.size());
    if (left < 0) break;
    all.push_back(*std::move(kept));
  }
  return all;
}

Result<Section> put_prefixes(const Store& store, std::span<const KeptPrefix> prefixes) {
  const std::string head = kept_prefixes_head(prefixes);
  snapshot::Hasher key;
  key.add_text("prefixes 1").add_text(head);
  auto num_bytes = static_cast<int64_t>(head.size());
  for (const KeptPrefix& prefix : prefixes) {
    key.add(prefix.bytes);
    num_bytes += static_cast<int64_t>(prefix.bytes.size());
  }
  const std::string kind(kPrefixPart);
  TRY_ASSIGN(snapshot::ObjectWriter writer, store.create(kind, num_bytes));
  if (auto written = writer.write(0, snapshot::bytes_of(head)); !written)
    return std::move(written).error();
  auto at = static_cast<int64_t>(head.size());
  for (const KeptPrefix& prefix : prefixes) {
    if (auto written = writer.write(at, prefix.bytes); !written) return std::move(written).error();
    at += static_cast<int64_t>(prefix.bytes.size());
  }
  TRY_ASSIGN(Section section, writer.publish(key.digest(), 1));
  TRY_ASSIGN([[maybe_unused]] const Object mapped, map_own(store, section));
  return section;
}

LoadedPrefixes load_prefixes(Engine& engine, const Store& store, const Section& section,
                             int num_threads) {
  LoadedPrefixes done;
  const auto object = map_own(store, section);
  if (!object) return {0, 0, 0, object.error().message};
  if (const auto good = object->verify(num_threads); !good) return {0, 0, 0, good.error().message};
  const auto prefixes = split_kept_prefixes(object->bytes());
  if (!prefixes) return {0, 0, 0, prefixes.error().message};
  for (size_t i = prefixes->size(); i-- > 0;) {
    const auto loaded = engine.load_prefix((*prefixes)[i]);
    if (loaded) {
      ++done.num_loaded;
      done.num_tokens += *loaded;
    } else {
      ++done.num_dropped;
      done.why = loaded.error().message;
    }
  }
  return done;
}

}  // namespace stoker
