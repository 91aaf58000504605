// Which servers of this user run on this machine: each leaves a locked file while it does, and the
// system frees the lock however it ends.
#pragma once

#include <string>
#include <vector>

#include "stoker/result.h"

namespace stoker {

/// What is told of a server. Texts have no line feeds.
struct RunningServer {
  int pid = 0;
  std::string model;     ///< its name
  std::string url;       ///< "http://127.0.0.1:8000" or "unix:PATH"
  std::string snapshot;  ///< its id; empty: from a checkpoint
  std::string started;   ///< "2026-01-31T12:00:00Z"
};

/// The folder of these files, made with mode 0700 where it is not there: $XDG_RUNTIME_DIR/stoker,
/// else /tmp/stoker-<uid>. Error: kIo, also where it is another user's or others can write in it.
Result<std::string> running_folder();

/// Tells of this process from now on; `what.pid` is not looked at. Movable; the file goes when it
/// does.
class RunningMark {
 public:
  /// Error: kIo.
  static Result<RunningMark> leave(const RunningServer& what);

  RunningMark(RunningMark&& other) noexcept;
  RunningMark& operator=(RunningMark&&) = delete;
  ~RunningMark();

 private:
  RunningMark(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

/// Those that run now, by process id; files of those that do not are removed. Error: kIo.
Result<std::vector<RunningServer>> running_servers();

}  // namespace stoker
