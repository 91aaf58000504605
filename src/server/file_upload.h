// The body of POST /v1/files, as it comes: the file goes to disk piece by piece, the other fields
// stay in memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/file_store.h"
#include "server/multipart.h"
#include "stoker/result.h"

namespace stoker {

/// One upload; what it wrote goes with it unless it was finished. Used by one thread at a time.
class FileUpload {
 public:
  /// The store must outlive the upload.
  FileUpload(FileStore& files, std::string owner, std::string_view boundary);
  FileUpload(const FileUpload&) = delete;  // its parser calls it
  FileUpload& operator=(const FileUpload&) = delete;

  /// More of the body. Errors: kInvalidArgument and kUnsupported for what is wrong with it; those
  /// of FileStore::begin_upload.
  Result<void> put(std::string_view bytes);

  /// The body is over: the file is there. Errors: the same.
  Result<StoredFile> finish();

 private:
  Result<void> begin_part(const MultipartPart& part);
  Result<void> add(std::string_view bytes);

  FileStore& files_;
  StoredFile about_;
  MultipartParser parser_;
  std::string part_;  // the name of the one that is read
  std::optional<FileDraft> draft_;
  std::map<std::string, std::string> fields_;
};

}  // namespace stoker
