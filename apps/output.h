// Standard output, piece by piece: flushed at once, safe on a terminal, and its failures are told.
#pragma once

#include <string>
#include <string_view>

#include "stoker/result.h"

namespace stoker {

/// Writes text of a model. On a terminal control characters other than tab and line feed become
/// U+FFFD, so that an answer cannot steer it. Used by one thread.
class Output {
 public:
  Output();

  bool is_terminal() const { return is_terminal_; }

  /// Whole UTF-8 characters.
  void write(std::string_view text);

  /// As write, dimmed on a terminal.
  void write_dimmed(std::string_view text);

  /// A line feed, unless nothing was written since the last one.
  void end_line();

  /// Whether all was written. Errors: kIo.
  Result<void> result() const;

 private:
  void put(std::string_view text);

  bool is_terminal_;
  bool at_line_start_ = true;
  int error_ = 0;  ///< errno of the first failure
};

}  // namespace stoker
