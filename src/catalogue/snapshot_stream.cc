#include "catalogue/snapshot_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "snapshot/arrival.h"
#include "snapshot/snapshots.h"

namespace stoker::catalogue {
namespace {

using snapshot::Arrival;
using snapshot::ChunkRange;
using snapshot::Digest;
using snapshot::Manifest;
using snapshot::ObjectFile;
using snapshot::Section;
using snapshot::Store;

constexpr std::string_view kMagic = "stoksnap";
constexpr uint64_t kStreamVersion = 1;
constexpr size_t kNumberBytes = 8;
constexpr size_t kHeadBytes = 4 * kNumberBytes;  // and its digest
constexpr size_t kDigestBytes = 16;
// A table grows as its bytes come: a length alone has no memory.
constexpr size_t kTableStepBytes = size_t{1} << 20;

int64_t table_size(const Section& section) {
  return section.num_chunks() * static_cast<int64_t>(sizeof(uint64_t));
}

std::string digest_bytes(const Digest& digest) {
  return {digest.bytes.begin(), digest.bytes.end()};
}

std::string text_part(const std::string& text) {
  std::string part;
  append_le(part, static_cast<uint64_t>(text.size()));
  return part + text;
}

// What stands behind the objects.
std::string end_text(const Manifest& manifest, const std::string& signature) {
  const std::string text = text_part(snapshot::manifest_text(manifest)) + text_part(signature);
  return text + digest_bytes(snapshot::digest_of(text));
}

std::string head_text(const Manifest& manifest, size_t end_bytes) {
  int64_t num_bytes = static_cast<int64_t>(kHeadBytes + kDigestBytes + end_bytes);
  for (const Section& section : manifest.sections) {
    num_bytes += static_cast<int64_t>(text_part(snapshot::key_file_text(section)).size());
    num_bytes += table_size(section) + section.bytes;
  }
  std::string head(kMagic);
  append_le(head, kStreamVersion);
  append_le(head, static_cast<uint64_t>(manifest.sections.size()));
  append_le(head, num_bytes);
  return head + digest_bytes(snapshot::digest_of(head));
}

// Tells a fraction of bytes that are counted.
class Counter {
 public:
  Counter(int64_t num_bytes, const snapshot::Progress& progress)
      : num_bytes_(num_bytes), progress_(progress) {}

  void add(int64_t num_bytes) {
    num_done_ += num_bytes;
    if (progress_) progress_(static_cast<double>(num_done_) / static_cast<double>(num_bytes_));
  }

 private:
  const int64_t num_bytes_;
  const snapshot::Progress& progress_;
  int64_t num_done_ = 0;
};

Result<void> write_object(const Store& store, const Section& section, const ByteSink& sink,
                          Counter& counter) {
  TRY_ASSIGN(const ObjectFile object, store.open_object(section));
  const std::string head =
      text_part(snapshot::key_file_text(section)) + snapshot::table_bytes(object.table);
  if (auto written = sink(snapshot::bytes_of(head)); !written) return written;
  std::vector<uint8_t> chunk;
  for (int64_t chunk_idx = 0; chunk_idx < section.num_chunks(); ++chunk_idx) {
    const ChunkRange range = snapshot::chunk_range(chunk_idx, section.bytes);
    chunk.resize(static_cast<size_t>(range.bytes));
    if (const int code = read_at(object.file.get(), range.offset, chunk); code != 0)
      return object.read_error(code);
    if (snapshot::chunk_digest(chunk, chunk_idx) != object.table[static_cast<size_t>(chunk_idx)])
      return object.chunk_error(chunk_idx);
    if (auto written = sink(chunk); !written) return written;
    counter.add(range.bytes);
  }
  return {};
}

Result<void> import_object(const Store& store, StreamReader& reader, Counter& counter) {
  TRY_ASSIGN(Arrival arrival, Arrival::begin(store, reader.section(), Arrival::Left::kRemoved));
  const bool is_new = !arrival.is_there();
  if (is_new) {
    if (auto taken = arrival.set_table(reader.table()); !taken) return taken;
  }
  while (reader.has_chunk()) {
    TRY_ASSIGN(const Bytes chunk, reader.next_chunk());
    if (is_new) {
      if (auto added = arrival.add_chunk(chunk); !added) return added;
    }
    counter.add(static_cast<int64_t>(chunk.size()));
  }
  return arrival.place();
}

}  // namespace

Error StreamReader::damaged(const std::string& what) const {
  return {ErrorCode::kCorruptData, "byte " + std::to_string(num_read_) + " of the stream: " + what,
          ""};
}

Result<void> StreamReader::read(std::span<uint8_t> out) {
  if (static_cast<int64_t>(out.size()) > num_bytes_ - num_read_)
    return damaged("expected at most the " + std::to_string(num_bytes_) + " bytes of its head");
  if (auto came = read_exactly(*source_, out); !came) {
    if (came.error().code == ErrorCode::kCorruptData) return damaged(came.error().message);
    return came;
  }
  num_read_ += static_cast<int64_t>(out.size());
  return {};
}

Result<uint64_t> StreamReader::read_number() {
  uint8_t bytes[kNumberBytes];
  if (auto came = read(bytes); !came) return std::move(came).error();
  return load_le<uint64_t>(bytes);
}

Result<std::string> StreamReader::read_text_part(const char* what, size_t min_bytes,
                                                 size_t max_bytes) {
  TRY_ASSIGN(const uint64_t num_bytes, read_number());
  if (num_bytes < min_bytes || num_bytes > max_bytes) {
    return damaged(std::string(what) + ": expected " + std::to_string(min_bytes) + " to " +
                   std::to_string(max_bytes) + " bytes, found " + std::to_string(num_bytes));
  }
  std::string text(num_bytes, '\0');
  if (auto came = read({reinterpret_cast<uint8_t*>(text.data()), text.size()}); !came)
    return std::move(came).error();
  return text;
}

Result<StreamReader> StreamReader::open(ByteSource& source) {
  StreamReader reader(source);
  if (auto read = reader.read_head(); !read) return std::move(read).error();
  return reader;
}

Result<void> StreamReader::read_head() {
  num_bytes_ = kHeadBytes + kDigestBytes;  // until it is known
  uint8_t head[kHeadBytes + kDigestBytes];
  if (auto came = read(head); !came) return came;
  const Bytes body(head, kHeadBytes);
  const std::string_view text(reinterpret_cast<const char*>(head), sizeof head);
  if (!text.starts_with(kMagic)) return damaged("expected a snapshot, which begins with stoksnap");
  if (text.substr(kHeadBytes) != digest_bytes(snapshot::digest_of(body)))
    return damaged("its head does not have its digest");
  const auto version = load_le<uint64_t>(head + kMagic.size());
  if (version != kStreamVersion) {
    return Error{ErrorCode::kUnsupported,
                 "expected a stream of version 1, found " + std::to_string(version), ""};
  }
  num_objects_ = load_le<int64_t>(head + 2 * kNumberBytes);
  num_bytes_ = load_le<int64_t>(head + 3 * kNumberBytes);
  if (num_objects_ < 1 || num_objects_ > static_cast<int64_t>(snapshot::kMaxSections))
    return damaged("expected 1 to 256 objects, found " + std::to_string(num_objects_));
  if (num_bytes_ < num_read_ || num_bytes_ > num_objects_ * 2 * snapshot::kMaxObjectBytes)
    return damaged("expected a number of bytes, found " + std::to_string(num_bytes_));
  return {};
}

Result<bool> StreamReader::next_object() {
  CHECK(!has_chunk(), "all chunks of the object before were read");
  if (object_idx_ == num_objects_) return false;
  TRY_ASSIGN(const std::string head,
             read_text_part("head of an object", 1, snapshot::kMaxKeyFileBytes));
  auto section = snapshot::parse_key_file(head);
  if (!section) return damaged("head of an object: " + section.error().message);
  if (!sections_.empty() && section->kind <= sections_.back().kind)
    return damaged("expected objects by kind, each once");
  if (auto checked = snapshot::check_can_travel(*section); !checked)
    return std::move(checked).error();
  if (table_size(*section) + section->bytes > num_bytes_ - num_read_) {
    return damaged(section->object() + ": expected at most the " + std::to_string(num_bytes_) +
                   " bytes of the stream's head");
  }
  sections_.push_back(*section);
  section_ = *std::move(section);
  num_object_bytes_ = 0;
  ++object_idx_;
  if (auto read = read_table(); !read) return std::move(read).error();
  return true;
}

Result<void> StreamReader::read_table() {
  table_.clear();
  const auto size = static_cast<size_t>(table_size(section_));
  while (table_.size() < size) {
    const size_t before = table_.size();
    table_.resize(std::min(size, before + kTableStepBytes));
    auto came = read({reinterpret_cast<uint8_t*>(table_.data()) + before, table_.size() - before});
    if (!came) return came;
  }
  if (auto checked = snapshot::check_table(section_, table_); !checked)
    return damaged(checked.error().message);
  chunk_digests_ = snapshot::parse_table(table_);
  return {};
}

Result<Bytes> StreamReader::next_chunk() {
  CHECK(has_chunk(), "a chunk is left");
  const int64_t chunk_idx = num_object_bytes_ / snapshot::kChunkBytes;
  const ChunkRange range = snapshot::chunk_range(chunk_idx, section_.bytes);
  chunk_.resize(static_cast<size_t>(range.bytes));
  if (auto came = read(chunk_); !came) return std::move(came).error();
  if (snapshot::chunk_digest(chunk_, chunk_idx) != chunk_digests_[static_cast<size_t>(chunk_idx)]) {
    num_read_ -= range.bytes;  // where the chunk begins
    return damaged(section_.object() + ": expected the bytes of its chunk table, found others in " +
                   "chunk " + std::to_string(chunk_idx));
  }
  num_object_bytes_ += range.bytes;
  return Bytes(chunk_);
}

Result<StreamEnd> StreamReader::read_end() {
  TRY_ASSIGN(const std::string text, read_text_part("manifest", 1, snapshot::kMaxManifestBytes));
  TRY_ASSIGN(std::string signature, read_text_part("signature", 0, kMaxSignatureBytes));
  uint8_t digest[kDigestBytes];
  if (auto came = read(digest); !came) return std::move(came).error();
  const std::string_view found(reinterpret_cast<const char*>(digest), sizeof digest);
  if (digest_bytes(snapshot::digest_of(text_part(text) + text_part(signature))) != found)
    return damaged("manifest and signature do not have their digest");
  auto manifest = snapshot::parse_manifest(text);
  if (!manifest) {
    if (manifest.error().code == ErrorCode::kUnsupported) return manifest.error().with("manifest");
    return damaged("manifest: " + manifest.error().message);
  }
  return StreamEnd{*std::move(manifest), std::move(signature)};
}

Result<StreamEnd> StreamReader::finish() {
  CHECK(object_idx_ == num_objects_ && !has_chunk(), "all objects were read");
  TRY_ASSIGN(StreamEnd end, read_end());
  if (end.manifest.sections != sections_)
    return damaged("manifest: expected the objects before it, and no others");
  if (num_read_ != num_bytes_)
    return damaged("expected " + std::to_string(num_bytes_) + " bytes, as its head says");
  TRY_ASSIGN(const bool ends, is_at_end(*source_));
  if (!ends) return damaged("expected its end, found more bytes");
  return end;
}

Result<void> write_stream(const Store& store, const Manifest& manifest,
                          const std::string& signature, const ByteSink& sink,
                          const snapshot::Progress& progress) {
  const std::string end = end_text(manifest, signature);
  auto written = sink(snapshot::bytes_of(head_text(manifest, end.size())));
  if (!written) return written;
  Counter counter(manifest.bytes(), progress);
  for (const Section& section : manifest.sections) {
    written = write_object(store, section, sink, counter);
    if (!written) return written;
  }
  return sink(snapshot::bytes_of(end));
}

Result<Manifest> import_stream(const Store& store, ByteSource& source,
                               const snapshot::Progress& progress) {
  TRY_ASSIGN(StreamReader reader, StreamReader::open(source));
  Counter counter(reader.num_bytes(), progress);
  while (true) {
    TRY_ASSIGN(const bool has_object, reader.next_object());
    if (!has_object) break;
    if (auto imported = import_object(store, reader, counter); !imported)
      return std::move(imported).error();
  }
  TRY_ASSIGN(StreamEnd end, reader.finish());
  auto published = snapshot::Snapshots(store).publish(end.manifest, end.signature);
  if (!published) return std::move(published).error();
  return std::move(end.manifest);
}

}  // namespace stoker::catalogue
