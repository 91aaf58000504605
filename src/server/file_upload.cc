#include "server/file_upload.h"

#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "server/identity.h"

namespace stoker {
namespace {

constexpr size_t kMaxFieldBytes = 1024;
constexpr const char* kFilePart = "file";
constexpr const char* kPurpose = "batch";

Error wrong_field(const std::string& name, const std::string& expected, const std::string& found) {
  return {ErrorCode::kInvalidArgument, name + ": expected " + expected + ", found " + found, name};
}

}  // namespace

FileUpload::FileUpload(FileStore& files, std::string owner, std::string_view boundary)
    : files_(files),
      parser_(boundary, {[this](const MultipartPart& part) { return begin_part(part); },
                         [this](std::string_view bytes) { return add(bytes); }}) {
  about_.owner = std::move(owner);
}

Result<void> FileUpload::put(std::string_view bytes) {
  return parser_.feed(bytes);
}

Result<void> FileUpload::begin_part(const MultipartPart& part) {
  part_ = part.name;
  if (part_.starts_with("expires_after")) {
    return Error{ErrorCode::kUnsupported,
                 "expires_after: expected none, since files stay until they are deleted",
                 "expires_after"};
  }
  const bool is_again = fields_.contains(part_) || (part_ == kFilePart && draft_);
  if (is_again) return wrong_field(part_, "one part", "two");
  if (part_ != kFilePart) {
    fields_[part_] = "";
    return {};
  }
  about_.filename = part.filename.value_or("");
  if (about_.filename.empty()) return wrong_field(kFilePart, "a filename", "none");
  TRY_ASSIGN(FileDraft draft, files_.begin_upload());
  draft_.emplace(std::move(draft));
  return {};
}

Result<void> FileUpload::add(std::string_view bytes) {
  if (part_ == kFilePart) return draft_->append(bytes);
  std::string& value = fields_[part_];
  if (value.size() + bytes.size() > kMaxFieldBytes)
    return wrong_field(part_, "at most " + std::to_string(kMaxFieldBytes) + " bytes", "more");
  value += bytes;
  return {};
}

Result<StoredFile> FileUpload::finish() {
  if (auto finished = parser_.finish(); !finished) return std::move(finished).error();
  if (!draft_) return wrong_field(kFilePart, "a file", "none");
  const auto purpose = fields_.find("purpose");
  if (purpose == fields_.end()) return wrong_field("purpose", kPurpose, "none");
  if (purpose->second != kPurpose)
    return wrong_field("purpose", kPurpose, json_quote(purpose->second.substr(0, 64)));
  about_.purpose = kPurpose;
  about_.created_at = unix_seconds();
  FileDraft draft = *std::move(draft_);
  draft_.reset();
  return files_.publish(std::move(draft), about_);
}

}  // namespace stoker
