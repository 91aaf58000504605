// What a model is, in 128 bits: equal where the same packed weights come out.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// The digest over the config's text and of every tensor its name, dtype, shape and bytes; of
/// Engram tables, which are used where they are, all but the bytes. It is also a promise: the codes
/// of these files were checked.
///
/// Reading everything takes long, so the store remembers it for files of this name, size, time and
/// inode. Error: kCorruptData of a code that is not good; a store that fails is only slower.
Result<snapshot::Digest> fingerprint_of(Checkpoint& checkpoint, const snapshot::Store& store,
                                        int num_threads, const ProgressSink& progress);

/// The same digest without a store: reads everything, and promises nothing of the codes.
snapshot::Digest fingerprint_of(const Checkpoint& checkpoint, int num_threads,
                                const ProgressSink& progress);

/// Equal for files of the same names, sizes, times, inodes and headers beside the same config.json.
snapshot::Digest files_key(const Checkpoint& checkpoint);

/// Where the bytes of Engram tables and their scales begin.
std::set<const uint8_t*> engram_tables(const Checkpoint& checkpoint);

/// ModelInfo::digest: over the fingerprint, tokenizer.json and the ids that end a text.
snapshot::Digest model_digest(const snapshot::Digest& fingerprint, const Checkpoint& checkpoint,
                              std::vector<int32_t> stop_ids);

}  // namespace stoker
