// Lines of standard input: edited and remembered on a terminal, plain elsewhere. The editing
// library stays behind line_editor.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "signals.h"

namespace stoker {

/// One at a time. On a terminal the lines of earlier runs are there as well: in
/// $XDG_STATE_HOME/stoker/history, or
/// ~/.local/state/stoker/history; where that cannot be written, lines last as long as the program.
class LineEditor {
 public:
  enum class Ending { kEndOfInput, kInterrupted };
  struct Line {
    std::optional<std::string> text;      ///< without its line feed
    Ending ending = Ending::kEndOfInput;  ///< why there is no text
  };

  explicit LineEditor(std::string prompt);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  /// Whether a person types: standard input and output are a terminal.
  bool is_interactive() const { return terminal_ != nullptr; }

  /// Waits for a line. On a terminal an interrupt that the guard noted ends the wait, and is taken.
  Line read(InterruptGuard* guard);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  ///< null where nobody types
};

}  // namespace stoker
