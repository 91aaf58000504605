#include "line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

constexpr int kHistoryLines = 1000;

/// Empty where there is no place for one.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  folder /= "stoker";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? std::string() : (folder / "history").string();
}

/// The library edits wide characters: what people type is UTF-8 even where the environment says
/// "C".
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// What the library's callbacks need.
struct Callbacks {
  std::string prompt;
  InterruptGuard* guard = nullptr;  ///< may be null
  bool is_interrupted = false;
};

Callbacks& callbacks_of(EditLine* editor) {
  Callbacks* callbacks = nullptr;
  el_get(editor, EL_CLIENTDATA, &callbacks);
  return *callbacks;
}

char* prompt_of(EditLine* editor) {
  return callbacks_of(editor).prompt.data();
}

/// Waits until there is input: true, or an interrupt: false.
bool wait_for_input(InterruptGuard* guard) {
  pollfd waited[] = {{STDIN_FILENO, POLLIN, 0},
                     {guard != nullptr ? guard->descriptor() : -1, POLLIN, 0}};
  while (poll(waited, 2, -1) < 0 && errno == EINTR) {
  }
  return guard == nullptr || !guard->take();
}

/// Reads one character for the library: 1, 0 at the end of input, -1 on an error or interrupt.
int read_character(EditLine* editor, wchar_t* character) {
  Callbacks& callbacks = callbacks_of(editor);
  std::mbstate_t state{};
  while (true) {
    callbacks.is_interrupted = !wait_for_input(callbacks.guard);
    if (callbacks.is_interrupted) return -1;
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n <= 0) return static_cast<int>(n);
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // there is more of this character
    if (length == static_cast<size_t>(-1)) *character = L'\uFFFD';
    return 1;
  }
}

}  // namespace

struct LineEditor::Terminal {
  Callbacks callbacks;
  std::string path;  ///< of the history; empty: none
  EditLine* editor = nullptr;
  History* history = nullptr;
};

LineEditor::LineEditor(std::string prompt) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return;
  use_utf8_locale();
  terminal_ = std::make_unique<Terminal>();
  terminal_->callbacks.prompt = std::move(prompt);
  terminal_->path = history_path();
  terminal_->history = history_init();
  HistEvent event;
  history(terminal_->history, &event, H_SETSIZE, kHistoryLines);
  history(terminal_->history, &event, H_SETUNIQUE, 1);
  if (!terminal_->path.empty())
    history(terminal_->history, &event, H_LOAD, terminal_->path.c_str());
  terminal_->editor = el_init("stoker", stdin, stdout, stderr);
  el_set(terminal_->editor, EL_CLIENTDATA, &terminal_->callbacks);
  el_set(terminal_->editor, EL_PROMPT, prompt_of);
  el_set(terminal_->editor, EL_EDITOR, "emacs");
  el_set(terminal_->editor, EL_HIST, history, terminal_->history);
  el_set(terminal_->editor, EL_GETCFN, read_character);
  el_set(terminal_->editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

LineEditor::~LineEditor() {
  if (terminal_ == nullptr) return;
  el_end(terminal_->editor);
  HistEvent event;
  if (!terminal_->path.empty())
    history(terminal_->history, &event, H_SAVE, terminal_->path.c_str());
  history_end(terminal_->history);
}

LineEditor::Line LineEditor::read(InterruptGuard* guard) {
  std::string text;
  if (terminal_ == nullptr) {
    if (!std::getline(std::cin, text)) return {};
    return {text, {}};
  }
  terminal_->callbacks.guard = guard;
  // Before the prompt shows, not after: a key typed at once is for the editor, too.
  el_set(terminal_->editor, EL_PREP_TERM, 1);
  int length = 0;
  const char* line = el_gets(terminal_->editor, &length);
  if (line == nullptr || length <= 0) {
    const bool is_interrupted = terminal_->callbacks.is_interrupted;
    std::puts("");
    el_reset(terminal_->editor);
    return {std::nullopt, is_interrupted ? Ending::kInterrupted : Ending::kEndOfInput};
  }
  text.assign(line, static_cast<size_t>(length));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  HistEvent event;
  if (!text.empty()) history(terminal_->history, &event, H_ENTER, text.c_str());
  return {text, {}};
}

}  // namespace stoker
