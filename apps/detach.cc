#include "detach.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common.h"
#include "running.h"

namespace stoker {
namespace {

constexpr char kReady = 'r';

Result<std::string> log_path(const std::string& log) {
  if (!log.empty()) return log;
  const auto folder = running_folder();
  if (!folder) return folder.error();
  return *folder + "/" + std::to_string(::getpid()) + ".log";
}

// From now on the process has nothing to do with its terminal.
void leave_terminal(int log_fd) {
  std::fflush(nullptr);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::close(log_fd);
}

int run_child(const std::string& log, int ready_fd,
              const std::function<int(const std::function<void()>& ready)>& body) {
  ::setsid();
  const auto path = log_path(log);
  if (!path) return report(path.error());
  const int log_fd = ::open(path->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
                            S_IRUSR | S_IWUSR);
  if (log_fd < 0) {
    return report(
        {ErrorCode::kIo, *path + ": expected a log to write: " + std::strerror(errno), ""});
  }
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::close(nothing);
  return body([&] {
    std::fprintf(stderr, "stoker: goes on as process %d; its log is %s\n",
                 static_cast<int>(::getpid()), path->c_str());
    leave_terminal(log_fd);
    (void)!::write(ready_fd, &kReady, 1);
    ::close(ready_fd);
  });
}

}  // namespace

int run_detached(const std::string& log,
                 const std::function<int(const std::function<void()>& ready)>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return report({ErrorCode::kResourceExhausted, "no pipe to be had", ""});
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return report({ErrorCode::kResourceExhausted, "no process to be had", ""});
  if (child == 0) {
    ::close(ends[0]);
    const int code = run_child(log, ends[1], body);
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  char word = 0;
  ssize_t size = -1;
  do {
    size = ::read(ends[0], &word, 1);
  } while (size < 0 && errno == EINTR);
  ::close(ends[0]);
  if (size == 1 && word == kReady) return 0;
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace stoker
