#include "catalogue/byte_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/folder.h"
#include "base/try.h"

namespace stoker::catalogue {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

Result<size_t> FileSource::read_some(std::span<uint8_t> out) {
  ssize_t n = -1;
  do {
    n = ::read(file_.get(), out.data(), out.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return system_error(path_, "cannot be read");
  return static_cast<size_t>(n);
}

Result<size_t> MemorySource::read_some(std::span<uint8_t> out) {
  const size_t n = std::min(out.size(), rest_.size());
  if (n > 0) std::memcpy(out.data(), rest_.data(), n);
  rest_ = rest_.subspan(n);
  return n;
}

Result<void> read_exactly(ByteSource& source, std::span<uint8_t> out) {
  size_t num_read = 0;
  while (num_read < out.size()) {
    TRY_ASSIGN(const size_t n, source.read_some(out.subspan(num_read)));
    if (n == 0) {
      return Error{ErrorCode::kCorruptData,
                   "cut: expected " + std::to_string(out.size()) + " bytes more, found " +
                       std::to_string(num_read),
                   ""};
    }
    num_read += n;
  }
  return {};
}

Result<bool> is_at_end(ByteSource& source) {
  uint8_t byte = 0;
  TRY_ASSIGN(const size_t n, source.read_some({&byte, 1}));
  return n == 0;
}

Result<std::string> read_text(ByteSource& source, size_t max_bytes) {
  std::string text;
  while (true) {
    // One byte beyond the limit is asked for, so that it is seen.
    const size_t before = text.size();
    text.resize(std::min(before + kReadBytes, max_bytes + 1));
    const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(text.data()) + before,
                                 text.size() - before);
    TRY_ASSIGN(const size_t n, source.read_some(out));
    text.resize(before + n);
    if (n == 0) return text;
    if (text.size() > max_bytes) {
      return Error{ErrorCode::kCorruptData,
                   "expected at most " + std::to_string(max_bytes) + " bytes, found more", ""};
    }
  }
}

}  // namespace stoker::catalogue
