#include "api/image_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "base/descriptor.h"
#include "base/mapped_file.h"

namespace stoker {
namespace {

using ProbeClock = std::chrono::steady_clock;

constexpr size_t kMaxSaidBytes = size_t{64} << 10;
constexpr size_t kMaxLineBytes = 200;
constexpr std::pair<int, int> kLeastCriu{4, 2};
constexpr std::pair<int, int> kLeastKernel{5, 9};  // the first with CAP_CHECKPOINT_RESTORE
constexpr int kCheckpointRestore = 40;             // CAP_CHECKPOINT_RESTORE

// What a program said, and how it ended.
struct Said {
  std::string text;     // both streams
  std::string failure;  // why it has no exit code; empty: it has
  int exit_code = 0;
};

// Reads to the end, or to a limit. False: to a limit.
bool read_said(int fd, ProbeClock::time_point end, std::string& text) {
  char buffer[4096];
  while (text.size() < kMaxSaidBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - ProbeClock::now());
    if (left.count() <= 0) return false;
    pollfd waits{fd, POLLIN, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(left.count()));
    if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
    if (ready < 0) continue;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return n == 0;
    text.append(buffer, static_cast<size_t>(n));
  }
  return false;
}

Said run_program(const ProbeOptions& options, const char* argument) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {"", "no pipe to be had", 0};
  const Descriptor reads(ends[0]);
  pid_t child = -1;
  int code = 0;
  {
    const Descriptor writes(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::string program = options.criu;
    std::string word = argument;
    char* const words[] = {program.data(), word.data(), nullptr};
    code = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
  }
  if (code == ENOENT) return {"", "none", 0};
  if (code != 0) return {"", options.criu + " cannot be run: " + std::strerror(code), 0};
  Said said;
  const bool is_whole = read_said(reads.get(), ProbeClock::now() + options.limit, said.text);
  if (!is_whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!is_whole) {
    said.failure = options.criu + " did not end in time, or said too much";
  } else if (WIFEXITED(status)) {
    said.exit_code = WEXITSTATUS(status);
  } else {
    said.failure = options.criu + " was ended by a signal";
  }
  return said;
}

// The last line that is not empty, without what a terminal would act on.
std::string last_line(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  if (last == std::string_view::npos) return "nothing";
  text = text.substr(0, last + 1);
  std::string line(text.substr(text.rfind('\n') + 1).substr(0, kMaxLineBytes));
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

std::string version_text(std::pair<int, int> version) {
  return std::to_string(version.first) + "." + std::to_string(version.second);
}

ImageNeed criu_need(const Said& said) {
  ImageNeed need{"criu", version_text(kLeastCriu) + " or newer in PATH", said.failure};
  if (!need.found.empty()) return need;
  const auto version = version_in(said.text, "Version: ");
  need.found = version ? version_text(*version) : "no version in '" + last_line(said.text) + "'";
  need.is_met = version && *version >= kLeastCriu;
  return need;
}

ImageNeed check_need(const Said& said) {
  ImageNeed need{"criu check", "that it finds all it needs", said.failure};
  if (!need.found.empty()) return need;
  need.is_met = said.exit_code == 0;
  need.found = need.is_met ? "it does" : last_line(said.text);
  return need;
}

ImageNeed privileges_need() {
  const auto status = read_file("/proc/self/status", size_t{1} << 16);
  const bool is_root = ::geteuid() == 0;
  ImageNeed need{"privileges", "root, or CAP_CHECKPOINT_RESTORE", "neither"};
  need.is_met = is_root || (status && has_capability(*status, kCheckpointRestore));
  if (need.is_met) need.found = is_root ? "root" : "CAP_CHECKPOINT_RESTORE";
  return need;
}

ImageNeed kernel_need() {
  utsname system{};
  ImageNeed need{"kernel", "Linux " + version_text(kLeastKernel) + " or newer", "unknown"};
  if (::uname(&system) != 0) return need;
  need.found = std::string(system.sysname) + " " + system.release;
  const auto version = version_in(system.release, "");
  need.is_met = version && *version >= kLeastKernel;
  return need;
}

}  // namespace

std::optional<std::pair<int, int>> version_in(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + label.size());
  int numbers[2] = {};
  for (int i = 0; i < 2; ++i) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 6) return std::nullopt;
    std::from_chars(text.data(), text.data() + digits, numbers[i]);
    text.remove_prefix(digits);
    if (i == 0 && !text.starts_with('.')) return std::nullopt;
    if (i == 0) text.remove_prefix(1);
  }
  return std::pair(numbers[0], numbers[1]);
}

bool has_capability(std::string_view status, int capability) {
  constexpr std::string_view kLabel = "\nCapEff:\t";
  const size_t at = status.find(kLabel);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = status.substr(at + kLabel.size(), 16);
  uint64_t set = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), set, 16);
  return read.ec == std::errc() && (set >> capability & 1) != 0;
}

std::vector<ImageNeed> probe_process_images(const ProbeOptions& options) {
  return {criu_need(run_program(options, "--version")), check_need(run_program(options, "check")),
          privileges_need(), kernel_need()};
}

}  // namespace stoker
