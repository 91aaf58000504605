// The directory of a made checkpoint: config.json, generation_config.json, the shards and their
// index.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/worker_pool.h"
#include "stoker/result.h"
#include "tools/slice_config.h"

namespace stoker::slice {

/// Writes the checkpoint into the directory, which is made if it is not there; files of the same
/// names are replaced. progress(fraction) is called from the calling thread between pieces of about
/// 256 MiB; may be null. Bytes do not depend on the pool's threads. Returns the bytes of all
/// tensors. Errors: kInvalidArgument (a config that parse_config refuses), kIo.
Result<int64_t> write_checkpoint(const std::string& dir, const Options& options, WorkerPool& pool,
                                 const std::function<void(double fraction)>& progress = {});

}  // namespace stoker::slice
