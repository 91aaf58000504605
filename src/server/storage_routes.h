// The routes of files and batches but for uploads: what is asked of them to what is answered. Knows
// no sockets. docs/batch.md describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "server/batch_service.h"
#include "server/http_error.h"
#include "server/routes.h"

namespace stoker {

/// Of the content of a file.
inline constexpr const char* kFileMediaType = "application/jsonl";

/// A request that check_head passed. A plain value.
struct StorageRequest {
  Target target = Target::kFiles;
  std::string method;
  std::string id;     ///< of the path; any text
  std::string query;  ///< as sent
  std::string owner;  ///< the name of the key that it shows; may be empty
  std::string body;   ///< of POST, but for uploads
};

/// The content of a file, to be sent.
struct StoredContent {
  Descriptor descriptor;
  int64_t num_bytes = 0;
};

/// What is answered.
struct StorageAnswer {
  std::string body = {};
  std::optional<StoredContent> content = {};  ///< in place of the body
  std::optional<HttpError> error = {};        ///< then the rest is of no account
};

/// Waits for the disk. Any thread.
StorageAnswer answer_from_storage(BatchService& batches, const StorageRequest& request);

}  // namespace stoker
