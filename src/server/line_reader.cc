#include "server/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace stoker {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

}  // namespace

LineReader::LineReader(int descriptor, size_t max_line_bytes)
    : descriptor_(descriptor), max_line_bytes_(max_line_bytes) {}

LineReader::State LineReader::next(std::string_view& line) {
  const size_t line_feed = buffer_.find('\n', searched_);
  const bool is_found = line_feed != std::string::npos;
  const size_t end = is_found ? line_feed : buffer_.size();
  is_long_ = is_long_ || end - start_ > max_line_bytes_;
  if (!is_found && !at_end_) {
    if (is_long_) {  // what is known to be too long is not kept
      dropped_ += end - start_;
      start_ = end;
    }
    searched_ = end;
    return State::kNeedsFill;
  }
  if (!is_found && end == start_ && dropped_ == 0) return State::kEnd;
  line = std::string_view(buffer_).substr(start_, end - start_);
  had_line_feed_ = is_found;
  offset_ += static_cast<int64_t>(dropped_ + end - start_ + (is_found ? 1 : 0));
  const bool was_long = is_long_;
  start_ = searched_ = end + (is_found ? 1 : 0);
  dropped_ = 0;
  is_long_ = false;
  return was_long ? State::kTooLong : State::kLine;
}

Result<void> LineReader::fill() {
  buffer_.erase(0, start_);
  searched_ -= start_;
  start_ = 0;
  const size_t size = buffer_.size();
  // A long line grows by ever larger pieces, a short one by whole buffers.
  const size_t wanted = std::max(kReadBytes, size / 2);
  buffer_.resize(size + wanted);
  ssize_t num_read = 0;
  do {
    num_read = read(descriptor_, buffer_.data() + size, wanted);
  } while (num_read < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(size + static_cast<size_t>(std::max<ssize_t>(num_read, 0)));
  if (num_read < 0) return Error{ErrorCode::kIo, std::strerror(error), ""};
  at_end_ = num_read == 0;
  return {};
}

bool is_blank(std::string_view line) {
  return std::all_of(line.begin(), line.end(), is_space);
}

Result<int64_t> count_lines(int descriptor) {
  std::vector<char> buffer(kReadBytes);
  int64_t num_lines = 0;
  bool is_counted = false;  // the line that is being read
  for (off_t at = 0;;) {
    const ssize_t num_read = pread(descriptor, buffer.data(), buffer.size(), at);
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) return Error{ErrorCode::kIo, std::strerror(errno), ""};
    if (num_read == 0) return num_lines;
    at += num_read;
    const char* end = buffer.data() + num_read;
    for (const char* c = buffer.data(); c < end; ++c) {
      if (is_counted) {  // on to the next line
        c = std::find(c, end, '\n');
        if (c == end) break;
        is_counted = false;
      } else if (!is_space(*c)) {
        is_counted = true;
        ++num_lines;
      }
    }
  }
}

}  // namespace stoker
