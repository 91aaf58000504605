#include "running.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMarkBytes = 8192;

Error mark_error(const std::string& path, const std::string& what) {
  return {ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno), ""};
}

std::string mark_text(const RunningServer& server) {
  return "model=" + server.model + "\nurl=" + server.url + "\nsnapshot=" + server.snapshot +
         "\nstarted=" + server.started + "\n";
}

// The value of the next line "name=value"; takes it off.
std::string next_value(std::string_view& rest, std::string_view name) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  if (!line.starts_with(name)) return {};
  return std::string(line.substr(name.size()));
}

// The process id that a file has as its name; 0 for another one.
int pid_of(const std::string& name) {
  int pid = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return code == std::errc() && end == name.data() + name.size() && pid > 0 ? pid : 0;
}

// None where its process is gone; the file then goes too.
std::optional<RunningServer> read_mark(const fs::path& path) {
  const int pid = pid_of(path.filename().string());
  if (pid == 0) return std::nullopt;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::string text(kMaxMarkBytes, '\0');
  const ssize_t size = ::read(fd, text.data(), text.size());
  const bool is_gone = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  if (is_gone) ::unlink(path.c_str());
  ::close(fd);
  if (is_gone || size < 0) return std::nullopt;
  text.resize(static_cast<size_t>(size));
  std::string_view rest = text;
  RunningServer server;
  server.pid = pid;
  server.model = next_value(rest, "model=");
  server.url = next_value(rest, "url=");
  server.snapshot = next_value(rest, "snapshot=");
  server.started = next_value(rest, "started=");
  return server;
}

}  // namespace

Result<std::string> running_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = runtime != nullptr && *runtime == '/'
                                 ? std::string(runtime) + "/stoker"
                                 : "/tmp/stoker-" + std::to_string(::geteuid());
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return mark_error(folder, "cannot be created");
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return mark_error(folder, "cannot be examined");
  const bool is_ours = S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
                       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_ours) return folder;
  return Error{ErrorCode::kIo,
               folder + ": expected a folder of this user that nobody else can write in", ""};
}

Result<RunningMark> RunningMark::leave(const RunningServer& what) {
  const auto folder = running_folder();
  if (!folder) return folder.error();
  const std::string path = *folder + "/" + std::to_string(::getpid());
  ::unlink(path.c_str());  // of an earlier process with this number
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return mark_error(path, "cannot be created");
  const std::string text = mark_text(what);
  const bool is_written =
      ::flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (is_written) return RunningMark(path, fd);
  Error error = mark_error(path, "cannot be written");
  ::close(fd);
  ::unlink(path.c_str());
  return error;
}

RunningMark::RunningMark(RunningMark&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

RunningMark::~RunningMark() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

Result<std::vector<RunningServer>> running_servers() {
  const auto folder = running_folder();
  if (!folder) return folder.error();
  std::vector<RunningServer> servers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(*folder, failed)) {
    if (auto server = read_mark(entry.path())) servers.push_back(*std::move(server));
  }
  if (failed) return Error{ErrorCode::kIo, *folder + ": " + failed.message(), ""};
  std::ranges::sort(servers, {}, &RunningServer::pid);
  return servers;
}

}  // namespace stoker
