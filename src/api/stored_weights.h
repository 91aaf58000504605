// Packed weights in the store: found there and mapped, or made and put there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/weights.h"
#include "snapshot/attach.h"
#include "snapshot/object.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// Mapped objects and the weights in them. Movable; the checkpoint outlives it, for what is not
/// packed stays there.
struct StoredWeights {
  std::optional<snapshot::Store> store;         ///< none while the objects are let go
  std::vector<snapshot::Object> objects;        ///< the first has the packed weights
  std::unique_ptr<const ModelWeights> weights;  ///< borrow from the objects and the checkpoint
  bool is_new = false;                          ///< made by this call
};

/// What the log is told of an object that was brought.
std::string attached_line(const snapshot::Section& section, const snapshot::AttachReport& report);

/// How to have them.
struct StoreWork {
  Verify verify = Verify::kBackground;
  int num_threads = 1;
  LogSink log;                              ///< may be null
  ProgressSink progress;                    ///< may be null
  std::function<bool()> is_cancelled = {};  ///< asked by snapshot_parts.h; true: kCancelled
};

/// Tells a sink, which may be null, why one waits, and goes on to wait.
snapshot::WaitSink wait_of(const ProgressSink& progress);

/// The store of that folder; of the usual one for "". Errors: those of Store::default_dir and
/// Store::open.
Result<snapshot::Store> open_store(const std::string& dir);

/// The weights of the checkpoint whose fingerprint this is; its codes were checked. What is found
/// is believed after its size, chunk table and header were checked, with kFull all of it, and else
/// made again. One process makes, others that want the same wait for it. Errors: kIo,
/// kResourceExhausted, kCorruptData: of a store that can neither give nor take them.
Result<StoredWeights> stored_weights(snapshot::Store store, const snapshot::Digest& fingerprint,
                                     const Checkpoint& checkpoint, const StoreWork& work);

/// The weights in a mapped object, of which the header is read and verified; `from` is what was
/// packed, or its shapes. Error: kCorruptData.
Result<std::unique_ptr<const ModelWeights>> packed_weights_in(const snapshot::Object& object,
                                                              const ModelWeights& from);

}  // namespace stoker
