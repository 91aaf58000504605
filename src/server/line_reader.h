// The lines of a file that may be larger than memory, or of a pipe: read as far as there are bytes,
// with a limit on the length of a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "stoker/result.h"

namespace stoker {

/// Cuts what a descriptor gives at line feeds. Holds one line and what was read behind it. Used by
/// one thread.
class LineReader {
 public:
  enum class State {
    kLine,       ///< a line is there
    kTooLong,    ///< a line was longer than the limit and is skipped
    kNeedsFill,  ///< no whole line has been read yet: fill()
    kEnd,        ///< there are no more lines
  };

  /// `descriptor` stays the caller's and must outlive the reader.
  LineReader(int descriptor, size_t max_line_bytes);

  /// The next line, without its line feed; `line` is valid until the next call of any function. The
  /// last line needs no line feed.
  State next(std::string_view& line);

  /// Reads once; waits where the descriptor does. Errors: kIo.
  Result<void> fill();

  /// Bytes up to the end of the last line that next() gave, with its line feed.
  int64_t offset() const { return offset_; }

  /// Whether the last line that next() gave ended with a line feed.
  bool had_line_feed() const { return had_line_feed_; }

 private:
  int descriptor_;
  size_t max_line_bytes_;
  std::string buffer_;
  size_t start_ = 0;      // of the next line in the buffer
  size_t searched_ = 0;   // no line feed between `start_` and here
  size_t dropped_ = 0;    // bytes of an overlong line that are gone already
  bool is_long_ = false;  // the line at `start_` is beyond the limit
  bool at_end_ = false;   // of what the descriptor gives
  int64_t offset_ = 0;
  bool had_line_feed_ = true;
};

/// Whether a line holds nothing but white space.
bool is_blank(std::string_view line);

/// How many lines of a regular file are not blank, from its beginning; its position stays. Errors:
/// kIo.
Result<int64_t> count_lines(int descriptor);

}  // namespace stoker
