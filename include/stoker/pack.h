// Packs the weights of a model into the store, ahead of the first start of an engine.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

struct PackOptions {
  std::string store = {};               ///< as WeightOptions
  Verify verify = Verify::kBackground;  ///< kBackground: what is there already is not read
  int num_threads = 0;                  ///< as EngineOptions
  LogSink log = {};                     ///< may be null
  ProgressSink progress = {};           ///< may be null
};

/// Packed weights in the store.
struct PackedFile {
  std::string path;
  int64_t num_bytes = 0;
  std::string digest;   ///< 32 hexadecimal digits
  bool is_new = false;  ///< made by this call
};

/// Makes sure that the packed weights of a model are in the store. Errors: as Engine::open for the
/// checkpoint; for the store kNotFound where there can be none, kIo, kResourceExhausted (with what
/// was wanted and found), kCorruptData if others can write in it.
Result<PackedFile> pack_model(const std::string& model, const PackOptions& options);

}  // namespace stoker
