// What is done with the files of a batch before it runs and after it: its input is looked through,
// and its answers and refusals become files of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/batch_record.h"
#include "server/file_store.h"
#include "stoker/result.h"

namespace stoker {

/// What an input holds. A plain value.
struct BatchInput {
  int64_t num_requests = 0;
  std::vector<BatchFault> faults;  ///< the first ones; none: it can be run
};

/// Reads all of an input, from the place where the descriptor is: every line must be a request to
/// the path of `route` with a custom_id of its own. Errors: kIo, kCancelled once `is_stopped`.
Result<BatchInput> check_batch_input(int descriptor, Route route, size_t max_line_bytes,
                                     const std::function<bool()>& is_stopped);

/// Puts the lines of a run's output at `path` into the files of the record's output_id and
/// error_id, those of them that get one, and sets in the record what they hold. May be done again.
/// No output is an empty one. Errors: as system_error.
Result<void> publish_batch_output(const std::string& path, FileStore& files, BatchRecord& record);

}  // namespace stoker
