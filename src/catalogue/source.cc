#include "catalogue/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/folder.h"
#include "base/try.h"
#include "catalogue/http_source.h"

namespace stoker::catalogue {
namespace {

// Who may write there does not matter: every byte is held against a digest, as those of a server.
class FolderSource : public Source {
 public:
  explicit FolderSource(std::string dir) : dir_(std::move(dir)) {}

  Result<std::unique_ptr<ByteSource>> open(const std::string& path, int64_t offset,
                                           int64_t num_bytes) override {
    const std::string whole = dir_ + "/" + path;
    Descriptor file(::open(whole.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return system_error(whole, "cannot be opened");
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_error(whole, "cannot be examined");
    const bool is_right = num_bytes == 0 || status.st_size == num_bytes;
    if (!S_ISREG(status.st_mode) || !is_right) {
      return Error{ErrorCode::kCorruptData,
                   whole + ": expected a regular file of " + std::to_string(num_bytes) +
                       " bytes, found " + std::to_string(status.st_size),
                   ""};
    }
    if (::lseek(file.get(), offset, SEEK_SET) != offset)
      return system_error(whole, "cannot be read");
    return std::unique_ptr<ByteSource>(new FileSource(std::move(file), whole));
  }

 private:
  const std::string dir_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_source(const std::string& where) {
  if (is_url(where)) {
    TRY_ASSIGN(Url url, parse_url(where));
    return std::unique_ptr<Source>(new HttpSource(std::move(url)));
  }
  struct stat status {};
  if (::stat(where.c_str(), &status) != 0) return system_error(where, "cannot be opened");
  if (!S_ISDIR(status.st_mode))
    return Error{ErrorCode::kInvalidArgument, where + ": expected a folder, or http(s)://...", ""};
  return std::unique_ptr<Source>(new FolderSource(where));
}

Result<std::string> text_of(Source& source, const std::string& path, size_t max_bytes) {
  TRY_ASSIGN(const auto bytes, source.open(path, 0, 0));
  return read_text(*bytes, max_bytes).with(path);
}

}  // namespace stoker::catalogue
