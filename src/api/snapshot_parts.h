// A model as the objects of a snapshot: all that an engine needs, without its checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/stored_weights.h"
#include "base/reserved_memory.h"
#include "checkpoint/checkpoint.h"
#include "snapshot/attach.h"
#include "snapshot/manifest.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// Kinds of objects, the names of sections in a manifest (docs/formats.md).
inline constexpr const char* kWeightsPart = "weights";  ///< packed
inline constexpr const char* kPackedPart = "packed";    ///< names and shapes of what is packed
inline constexpr const char* kTensorsPart = "tensors";  ///< what is used as the checkpoint has it
inline constexpr const char* kTablesPart = "tables";    ///< of Engram; not of every model
inline constexpr const char* kConfigPart = "config";
inline constexpr const char* kGenerationPart = "generation";  ///< not of every model
inline constexpr const char* kTokenizerPart = "tokenizer";    ///< not of every model
inline constexpr const char* kPlansPart = "plans";            ///< may be missing
inline constexpr const char* kCanaryPart = "canary";
inline constexpr std::string_view kPrefixPart = snapshot::kPrivateKind;  ///< may be missing

/// Puts into the store what of a checkpoint is beside its packed weights, or finds it there.
/// `packed` are its weights with those in the store. Sections in no order. Errors: kIo,
/// kResourceExhausted.
Result<std::vector<snapshot::Section>> put_model_parts(const snapshot::Store& store,
                                                       const Checkpoint& checkpoint,
                                                       const ModelWeights& packed,
                                                       const snapshot::Digest& fingerprint,
                                                       const StoreWork& work);

/// Reads every byte of an object: with work.num_threads threads, or where it can be cancelled with
/// the caller's alone, beside which others compute. Errors: those of Store::map; kCorruptData with
/// object, chunk and offset; kCancelled.
Result<void> verify_section(const snapshot::Store& store, const snapshot::Section& section,
                            const StoreWork& work);

/// A model of a snapshot, mapped. Movable.
struct MappedModel {
  ReservedMemory packed_memory;  ///< where the packed tensors would be
  Checkpoint checkpoint;         ///< borrows from that and from `weights`
  StoredWeights weights;
};

/// Has a large object in memory, its bytes verified or not.
using BringObject =
    std::function<Result<snapshot::Object>(const snapshot::Store&, const snapshot::Section&)>;

/// The texts beside the weights, verified. Errors: kNotFound, kIo, kCorruptData with the section.
Result<CheckpointTexts> texts_of(const snapshot::Store& store, const snapshot::Manifest& manifest);

/// Maps the objects of a manifest, whose texts are read. Small ones are read and held against their
/// digests; of large ones, which `bring` brings, the headers. Errors: those of `bring`; kNotFound,
/// kIo, kCorruptData with the section.
Result<MappedModel> map_model(snapshot::Store store, const snapshot::Manifest& manifest,
                              CheckpointTexts texts, const BringObject& bring);

/// The text of a section of at most max_bytes, verified; none where the manifest has none. Errors:
/// kNotFound, kIo, kCorruptData.
Result<std::optional<std::string>> text_part(const snapshot::Store& store,
                                             const snapshot::Manifest& manifest, const char* part,
                                             size_t max_bytes);
/// The same of one that must be there. Error: kCorruptData where it is not.
Result<std::string> needed_text(const snapshot::Store& store, const snapshot::Manifest& manifest,
                                const char* part, size_t max_bytes);

/// Has a large object in memory, verified: of tables as pages of the file, whatever is faster.
/// `progress` may be null. Errors: those of snapshot::attach.
Result<snapshot::Attached> attach_part(const snapshot::Store& store,
                                       const snapshot::Section& section,
                                       snapshot::AttachVerify verify, int num_threads,
                                       const ProgressSink& progress);

}  // namespace stoker
