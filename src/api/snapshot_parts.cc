#include "api/snapshot_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/fingerprint.h"
#include "base/try.h"
#include "checkpoint/safetensors.h"
#include "model/packed_weights.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Manifest;
using snapshot::Object;
using snapshot::Section;
using snapshot::Store;

constexpr size_t kMaxSmallPartBytes = size_t{4} << 20;
constexpr size_t kMaxHeadBytes = size_t{1} << 27;
constexpr size_t kPageBytes = 4096;  // where the data of an image begins

// The places in a checkpoint's bytes that packed weights took over, or did not.
class PackedPlaces {
 public:
  PackedPlaces(const ModelWeights& from, const ModelWeights& packed) {
    ModelWeights before = from;
    ModelWeights after = packed;
    std::vector<bool> is_taken;
    for_each_matrix(after, [&](const Weight& matrix, bool /*parts*/) {
      is_taken.push_back(is_packed(matrix.format));
    });
    size_t i = 0;
    for_each_matrix(before, [&](const Weight& matrix, bool /*parts*/) {
      for (const uint8_t* place : {matrix.data, matrix.scale}) {
        if (place != nullptr) places_.emplace_back(place, is_taken[i]);
      }
      ++i;
    });
    std::ranges::sort(places_);
  }

  // Whether nobody reads the tensor any more: it has matrices, and all of them are packed.
  bool took(const TensorView& tensor) const {
    auto at = std::ranges::lower_bound(places_, std::pair(tensor.data, false));
    bool any = false;
    for (; at != places_.end() && at->first < tensor.data + tensor.size_bytes; ++at) {
      if (!at->second) return false;
      any = true;
    }
    return any;
  }

 private:
  std::vector<std::pair<const uint8_t*, bool>> places_;  // where a matrix begins, whether taken
};

// The tensors of a checkpoint that are used, by where a snapshot has them.
struct SortedTensors {
  std::vector<NamedTensor> packed;
  std::vector<NamedTensor> plain;
  std::vector<NamedTensor> tables;
};

SortedTensors sorted_tensors(const Checkpoint& checkpoint, const ModelWeights& packed) {
  const PackedPlaces places(checkpoint.weights(), packed);
  const std::set<const uint8_t*> tables = engram_tables(checkpoint);
  const std::set<std::string> unused(checkpoint.unused().begin(), checkpoint.unused().end());
  SortedTensors sorted;
  for (const StoredTensor& stored : checkpoint.shards().tensors) {
    const NamedTensor& tensor = stored.tensor;
    if (unused.contains(tensor.name)) continue;
    const bool is_table = tables.contains(tensor.view.data);
    auto& of = is_table ? sorted.tables : places.took(tensor.view) ? sorted.packed : sorted.plain;
    of.push_back(tensor);
  }
  return sorted;
}

bool is_cancelled(const StoreWork& work) {
  return work.is_cancelled && work.is_cancelled();
}

Error gave_up() {
  return {ErrorCode::kCancelled, "the snapshot was given up", ""};
}

// Puts parts where no object of their key is there yet.
class PartsMaker {
 public:
  PartsMaker(const Store& store, const StoreWork& work) : store_(store), work_(work) {}

  Result<void> add_text(const char* kind, const std::string& text) {
    const Digest key = snapshot::digest_of(text);
    return add(kind, key, [&] { return store_.put_text(kind, key, text); });
  }

  Result<void> add_image(const char* kind, const Digest& key,
                         const std::vector<NamedTensor>& tensors) {
    return add(kind, key, [&] { return put_image(kind, key, tensors); });
  }

  std::vector<Section> take() { return std::move(sections_); }

 private:
  template <class Make>
  Result<void> add(const char* kind, const Digest& key, const Make& make) {
    const auto lock = store_.lock(kind, key, wait_of(work_.progress));
    if (!lock) return lock.error();
    const snapshot::Found found = store_.find(kind, key);
    if (found.section) {  // believed after all of it was read, as a snapshot must be
      auto good = verify_section(store_, *found.section, work_);
      if (good) sections_.push_back(*found.section);
      if (good || good.error().code == ErrorCode::kCancelled) return good;
    }
    TRY_ASSIGN(Section made, make());
    sections_.push_back(std::move(made));
    return {};
  }

  Result<Section> put_image(const char* kind, const Digest& key,
                            const std::vector<NamedTensor>& tensors) const {
    const std::string head = safetensors_head(tensors, kPageBytes);
    int64_t size = static_cast<int64_t>(head.size());
    for (const NamedTensor& tensor : tensors) size += tensor.view.size_bytes;
    TRY_ASSIGN(snapshot::ObjectWriter writer, store_.create(kind, size));
    if (auto written = writer.write(0, snapshot::bytes_of(head)); !written)
      return std::move(written).error();
    int64_t at = static_cast<int64_t>(head.size());
    for (const NamedTensor& tensor : tensors) {
      if (auto written = write(writer, at, tensor.view, size); !written)
        return std::move(written).error();
      at += tensor.view.size_bytes;
    }
    return writer.publish(key, work_.num_threads, [&](double fraction) {
      tell(std::string("writing ") + kind, fraction, size);
    });
  }

  Result<void> write(const snapshot::ObjectWriter& writer, int64_t at, const TensorView& view,
                     int64_t total) const {
    for (int64_t done = 0; done < view.size_bytes; done += snapshot::kChunkBytes) {
      if (is_cancelled(work_)) return gave_up();
      const int64_t size = std::min(snapshot::kChunkBytes, view.size_bytes - done);
      auto written = writer.write(at + done, Bytes(view.data + done, static_cast<size_t>(size)));
      if (!written) return written;
      tell("copying tensors", static_cast<double>(at + done) / static_cast<double>(total), total);
    }
    return {};
  }

  void tell(const std::string& phase, double fraction, int64_t num_bytes) const {
    if (work_.progress) work_.progress({phase, fraction, num_bytes});
  }

  const Store& store_;
  const StoreWork& work_;
  std::vector<Section> sections_;
};

Error no_section(const char* part) {
  return {ErrorCode::kCorruptData, "expected a section " + std::string(part) + ", found none", ""};
}

void add_tensors(Shards& shards, std::vector<NamedTensor> tensors, const std::string& name) {
  for (NamedTensor& tensor : tensors)
    shards.tensors.push_back({std::move(tensor), shards.names.size()});
  shards.names.push_back(name);
}

// The header of a safetensors image, of at least 8 bytes, is used at once. How long it is stands in
// its first chunk: where that is damaged, so is what is verified.
Result<void> check_head(const Object& object) {
  const auto length = load_le<uint64_t>(object.bytes().data());
  return object.verify_head(static_cast<int64_t>(std::min<uint64_t>(length, INT64_MAX - 8)) + 8);
}

// Maps a safetensors image and adds its tensors.
Result<void> add_image(const Store& store, const Manifest& manifest, const char* part,
                       const BringObject& bring, Shards& shards, std::vector<Object>& objects) {
  const Section* const section = manifest.find(part);
  if (section == nullptr) return no_section(part);
  TRY_ASSIGN(Object object, bring(store, *section));
  if (section->bytes < 8) return no_section(part);
  if (auto checked = check_head(object); !checked) return checked;
  TRY_ASSIGN(std::vector<NamedTensor> tensors,
             parse_safetensors(object.bytes(), section->object()));
  add_tensors(shards, std::move(tensors), section->object());
  objects.push_back(std::move(object));
  return {};
}

// The tensors that are there only in packed form, at addresses where nothing is.
Result<ReservedMemory> add_packed(const Store& store, const Manifest& manifest, Shards& shards) {
  TRY_ASSIGN(const std::string head, needed_text(store, manifest, kPackedPart, kMaxHeadBytes));
  TRY_ASSIGN(std::vector<NamedTensor> tensors,
             parse_safetensors_head(snapshot::bytes_of(head), kPackedPart));
  int64_t total = 0;
  for (const NamedTensor& tensor : tensors) {
    if (__builtin_add_overflow(total, tensor.view.size_bytes, &total) ||
        total > snapshot::kMaxObjectBytes)
      return Error{ErrorCode::kCorruptData,
                   std::string(kPackedPart) + ": expected at most 2^48 bytes of tensors", ""};
  }
  TRY_ASSIGN(ReservedMemory memory, ReservedMemory::create(total));
  int64_t at = 0;
  for (NamedTensor& tensor : tensors) {
    tensor.view.data = memory.data() + at;
    at += tensor.view.size_bytes;
  }
  add_tensors(shards, std::move(tensors), kPackedPart);
  return memory;
}

}  // namespace

Result<std::vector<Section>> put_model_parts(const Store& store, const Checkpoint& checkpoint,
                                             const ModelWeights& packed, const Digest& fingerprint,
                                             const StoreWork& work) {
  const SortedTensors sorted = sorted_tensors(checkpoint, packed);
  const CheckpointTexts& texts = checkpoint.texts();
  PartsMaker maker(store, work);
  auto added = maker.add_text(kConfigPart, texts.config);
  if (added && texts.generation_config)
    added = maker.add_text(kGenerationPart, *texts.generation_config);
  if (added && texts.tokenizer) added = maker.add_text(kTokenizerPart, *texts.tokenizer);
  if (added) added = maker.add_text(kPackedPart, safetensors_head(sorted.packed));
  if (added) {
    snapshot::Hasher key;
    key.add_text("tensors 1").add_number(kPackedVersion).add(fingerprint.bytes);
    added = maker.add_image(kTensorsPart, key.digest(), sorted.plain);
  }
  if (added && !sorted.tables.empty()) {
    snapshot::Hasher key;
    key.add_text("tables 1").add(files_key(checkpoint).bytes);
    added = maker.add_image(kTablesPart, key.digest(), sorted.tables);
  }
  if (!added) return std::move(added).error();
  return maker.take();
}

Result<void> verify_section(const Store& store, const Section& section, const StoreWork& work) {
  TRY_ASSIGN(const Object object, store.map(section));
  if (!work.is_cancelled) return object.verify(work.num_threads);
  for (int64_t chunk_idx = 0; chunk_idx < object.num_chunks(); ++chunk_idx) {
    if (work.is_cancelled()) return gave_up();
    if (!object.chunk_is_good(chunk_idx)) return object.chunk_error(chunk_idx);
  }
  return {};
}

Result<std::optional<std::string>> text_part(const Store& store, const Manifest& manifest,
                                             const char* part, size_t max_bytes) {
  const Section* const section = manifest.find(part);
  if (section == nullptr) return std::optional<std::string>();
  TRY_ASSIGN(std::string text, store.text_of(*section, max_bytes));
  return std::optional(std::move(text));
}

Result<std::string> needed_text(const Store& store, const Manifest& manifest, const char* part,
                                size_t max_bytes) {
  TRY_ASSIGN(std::optional<std::string> text, text_part(store, manifest, part, max_bytes));
  if (!text) return no_section(part);
  return *std::move(text);
}

Result<snapshot::Attached> attach_part(const Store& store, const Section& section,
                                       snapshot::AttachVerify verify, int num_threads,
                                       const ProgressSink& progress) {
  snapshot::AttachOptions options;
  options.num_threads = num_threads;
  options.verify = verify;
  // Of tables a few rows are read for each token: no copy of them is worth its memory.
  if (section.kind == kTablesPart) options.choice = snapshot::AttachChoice::kMapped;
  options.progress = [&](double fraction) {
    if (progress) progress({"verifying " + section.kind, fraction, section.bytes});
  };
  return snapshot::attach(store, section, options);
}

Result<CheckpointTexts> texts_of(const Store& store, const Manifest& manifest) {
  CheckpointTexts texts;
  TRY_ASSIGN(texts.config, needed_text(store, manifest, kConfigPart, kMaxSmallPartBytes));
  TRY_ASSIGN(texts.generation_config,
             text_part(store, manifest, kGenerationPart, kMaxSmallPartBytes));
  TRY_ASSIGN(texts.tokenizer, text_part(store, manifest, kTokenizerPart, kMaxTokenizerBytes));
  return texts;
}

Result<MappedModel> map_model(Store store, const Manifest& manifest, CheckpointTexts texts,
                              const BringObject& bring) {
  const Section* const section = manifest.find(kWeightsPart);
  if (section == nullptr) return no_section(kWeightsPart);
  TRY_ASSIGN(Object object, bring(store, *section));
  std::vector<Object> objects;
  objects.push_back(std::move(object));
  Shards shards;
  TRY_ASSIGN(ReservedMemory memory, add_packed(store, manifest, shards));
  auto added = add_image(store, manifest, kTensorsPart, bring, shards, objects);
  if (added && manifest.find(kTablesPart) != nullptr)
    added = add_image(store, manifest, kTablesPart, bring, shards, objects);
  if (!added) return std::move(added).error();
  TRY_ASSIGN(Checkpoint checkpoint,
             Checkpoint::of_parts(std::move(texts), std::move(shards),
                                  store.dir() + "/snapshots/" + manifest.id().hex()));
  TRY_ASSIGN(auto weights, packed_weights_in(objects.front(), checkpoint.weights()));
  StoredWeights stored{std::move(store), std::move(objects), std::move(weights), false};
  return MappedModel{std::move(memory), std::move(checkpoint), std::move(stored)};
}

}  // namespace stoker
