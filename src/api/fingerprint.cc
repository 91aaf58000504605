#include "api/fingerprint.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/try.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Hasher;

constexpr const char* kFingerprintKind = "fingerprint";
// Of what the digests below are made; another one is another key.
constexpr std::string_view kFilesKey = "files 1";
constexpr std::string_view kModelKey = "model 1";
constexpr std::string_view kAnswersKey = "answers 1";

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A run of a tensor's bytes, which one thread reads.
struct Piece {
  Bytes bytes;
  Digest digest;
};

// The digests of all pieces of the tensors, in order.
std::vector<Piece> digests_of(const Checkpoint& checkpoint, int num_threads,
                              const ProgressSink& progress) {
  const std::set<const uint8_t*> tables = engram_tables(checkpoint);
  std::vector<Piece> pieces;
  int64_t total = 0;
  for (const StoredTensor& stored : checkpoint.shards().tensors) {
    const TensorView& view = stored.tensor.view;
    if (tables.contains(view.data)) continue;
    total += view.size_bytes;
    for (int64_t at = 0; at < view.size_bytes; at += snapshot::kChunkBytes) {
      const int64_t size = std::min(snapshot::kChunkBytes, view.size_bytes - at);
      pieces.push_back({Bytes(view.data + at, static_cast<size_t>(size)), {}});
    }
  }
  snapshot::for_each_chunk(
      static_cast<int64_t>(pieces.size()), num_threads,
      [&](double fraction) {
        if (progress) progress({"reading weights", fraction, total});
      },
      [&](int64_t i, int /*worker*/) {
        Piece& piece = pieces[static_cast<size_t>(i)];
        piece.digest = snapshot::digest_of(piece.bytes);
      });
  return pieces;
}

// What the store remembers of these files, if anything.
std::optional<Digest> remembered(const snapshot::Store& store, const Digest& key) {
  const snapshot::Found found = store.find(kFingerprintKind, key);
  if (!found.section) return std::nullopt;
  const auto text = store.text_of(*found.section, Digest::kHexDigits);
  return text ? Digest::from_hex(*text) : std::nullopt;
}

// The next start then knows; one that cannot be told finds out for itself.
void remember(const snapshot::Store& store, const Digest& key, const Digest& fingerprint) {
  const auto lock = store.lock(kFingerprintKind, key);
  if (lock) (void)store.put_text(kFingerprintKind, key, fingerprint.hex());
}

}  // namespace

Digest files_key(const Checkpoint& checkpoint) {
  Hasher hasher;
  hasher.add_text(kFilesKey).add_text(checkpoint.texts().config);
  const Shards& shards = checkpoint.shards();
  for (size_t i = 0; i < shards.files.size(); ++i) {
    const FileIdentity& identity = shards.files[i].identity();
    hasher.add_text(shards.names[i])
        .add_number(identity.bytes)
        .add_number(identity.changed_ns)
        .add_number(identity.inode)
        .add_text(text_of(header_of(shards.files[i].bytes())));
  }
  return hasher.digest();
}

std::set<const uint8_t*> engram_tables(const Checkpoint& checkpoint) {
  std::set<const uint8_t*> tables;
  for (const BlockWeights& layer : checkpoint.weights().layers) {
    if (layer.engram.embed) tables.insert({layer.engram.embed.data, layer.engram.embed.scale});
  }
  return tables;
}

Result<Digest> fingerprint_of(Checkpoint& checkpoint, const snapshot::Store& store, int num_threads,
                              const ProgressSink& progress) {
  const Digest key = files_key(checkpoint);
  if (const auto known = remembered(store, key)) return *known;
  const int64_t num_bytes = checkpoint.weight_bytes();
  auto checked = checkpoint.check_codes(num_threads, [&](double fraction) {
    if (progress) progress({"checking weights", fraction, num_bytes});
  });
  if (!checked) return std::move(checked).error();
  const Digest fingerprint = fingerprint_of(checkpoint, num_threads, progress);
  remember(store, key, fingerprint);
  return fingerprint;
}

Digest fingerprint_of(const Checkpoint& checkpoint, int num_threads, const ProgressSink& progress) {
  Hasher hasher;
  hasher.add_text(kModelKey).add_text(checkpoint.texts().config);
  for (const StoredTensor& stored : checkpoint.shards().tensors) {
    const TensorView& view = stored.tensor.view;
    hasher.add_text(stored.tensor.name).add_text(dtype_info(view.dtype).name);
    hasher.add_number(static_cast<int64_t>(view.shape.size()));
    for (const int64_t size : view.shape) hasher.add_number(size);
  }
  for (const Piece& piece : digests_of(checkpoint, num_threads, progress))
    hasher.add(piece.digest.bytes);
  return hasher.digest();
}

Digest model_digest(const Digest& fingerprint, const Checkpoint& checkpoint,
                    std::vector<int32_t> stop_ids) {
  std::sort(stop_ids.begin(), stop_ids.end());
  Hasher hasher;
  hasher.add_text(kAnswersKey).add(fingerprint.bytes);
  hasher.add_number(checkpoint.texts().tokenizer.has_value() ? 1 : 0);
  if (checkpoint.texts().tokenizer) hasher.add_text(*checkpoint.texts().tokenizer);
  hasher.add_number(static_cast<int64_t>(stop_ids.size()));
  for (const int32_t id : stop_ids) hasher.add_number(id);
  return hasher.digest();
}

}  // namespace stoker
