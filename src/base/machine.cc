#include "base/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <string_view>

namespace stoker {
namespace {

constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
constexpr int64_t kMicrocoresPerCore = 1'000'000;

// The first number in a file of /sys or /proc, or `otherwise`.
int64_t number_in(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// The path of this process's control group in the hierarchy of version 2: the line "0::/path".
std::string control_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "/";
}

// Limit in a file of version 2, or `otherwise`: "max", one number, or quota and period of CPU time,
// read as millionths of a core.
int64_t limit_in(const std::filesystem::path& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t first = 0;
  int64_t period = 0;
  if (!(file >> first)) return otherwise;
  if (file >> period && period > 0) return first * kMicrocoresPerCore / period;
  return first;
}

// The first line of a file, or nothing.
std::string line_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The lines of the first processor that say which one it is: "key : value" until an empty line.
std::string processor_in(const std::filesystem::path& cpuinfo) {
  constexpr std::array<std::string_view, 5> kKeys = {"vendor_id", "cpu family", "model",
                                                     "model name", "stepping"};
  std::ifstream file(cpuinfo);
  std::string line;
  std::string found;
  while (std::getline(file, line) && !line.empty()) {
    const size_t colon = line.find(':');
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon == std::string::npos || std::ranges::find(kKeys, key) == kKeys.end()) continue;
    found += (found.empty() ? "" : ", ") + line.substr(std::min(colon + 2, line.size()));
  }
  return found;
}

int numa_nodes_in(const std::filesystem::path& folder) {
  int nodes = 0;
  std::error_code none;  // what cannot be looked at is not there
  while (std::filesystem::exists(folder / ("node" + std::to_string(nodes)), none)) ++nodes;
  return std::max(1, nodes);
}

std::vector<std::string> caches_in(const std::filesystem::path& folder) {
  std::vector<std::string> caches;
  for (int i = 0;; ++i) {
    const std::filesystem::path cache = folder / ("index" + std::to_string(i));
    const std::string size = line_in(cache / "size");
    if (size.empty()) return caches;
    caches.push_back(line_in(cache / "level") + " " + line_in(cache / "type") + " " + size);
  }
}

}  // namespace

int64_t least_limit(const std::filesystem::path& root, const std::filesystem::path& group,
                    const std::string& file, int64_t otherwise) {
  int64_t least = otherwise;
  std::filesystem::path path = group;
  for (bool is_root = false; !is_root; path = path.parent_path()) {
    is_root = !path.has_relative_path();
    least = std::min(least, limit_in(root / path.relative_path() / file, otherwise));
  }
  return least;
}

int usable_cores() {
  return usable_cores(core_map(allowed_processors()));
}

int usable_cores(const CoreMap& map) {
  const auto num_cores = static_cast<int64_t>(map.cores.size());
  const int64_t quota =
      least_limit(kCgroupRoot, control_group(), "cpu.max", num_cores * kMicrocoresPerCore) /
      kMicrocoresPerCore;
  return static_cast<int>(std::max<int64_t>(1, std::min(num_cores, quota)));
}

int64_t usable_memory_bytes() {
  const int64_t machine =
      static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  const int64_t old_limit =
      number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", machine);  // version 1
  return std::min(old_limit, least_limit(kCgroupRoot, control_group(), "memory.max", machine));
}

int64_t available_memory_bytes(const std::filesystem::path& root) {
  const int64_t usable = usable_memory_bytes();
  std::ifstream file(root / "proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kib) == 1) {
      return std::min<int64_t>(usable, kib << 10);
    }
  }
  return usable;
}

HardwareFacts hardware_facts(const std::filesystem::path& root) {
  const std::filesystem::path system = root / "sys/devices/system";
  return {processor_in(root / "proc/cpuinfo"), usable_cores(), numa_nodes_in(system / "node"),
          caches_in(system / "cpu/cpu0/cache"), ::sysconf(_SC_PAGE_SIZE)};
}

}  // namespace stoker
