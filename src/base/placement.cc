#include "base/placement.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace stoker {
namespace {

constexpr int kMaxNodes = 1024;  // of the kernel, on x86-64

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_of(const std::filesystem::path& path, int otherwise) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : otherwise;
}

// The numbers of a list of the kernel, "0-3,8"; of anything else those before what is wrong.
std::set<int> numbers_of(std::string_view list) {
  std::set<int> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto read = [&at, end](int& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value >= 0 && value < CPU_SETSIZE;
  };
  for (int first = 0; at < end && read(first); ++at) {
    int last = first;
    if (at < end && *at == '-' && (++at == end || !read(last))) break;
    for (int number = first; number <= last; ++number) numbers.insert(number);
  }
  return numbers;
}

std::vector<int> nodes_of(const std::vector<int>& allowed, const std::filesystem::path& folder) {
  std::vector<int> nodes;
  for (const int node : numbers_of(line_of(folder / "has_memory"))) {
    const std::set<int> cpus =
        numbers_of(line_of(folder / ("node" + std::to_string(node)) / "cpulist"));
    if (node < kMaxNodes &&
        std::ranges::any_of(allowed, [&cpus](int cpu) { return cpus.contains(cpu); }))
      nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) allowed.push_back(cpu);
  }
  return allowed;
}

CoreMap core_map(const std::vector<int>& allowed, const std::filesystem::path& root) {
  const std::filesystem::path system = root / "sys/devices/system";
  std::map<std::pair<int, int>, std::vector<int>> cores;  // by package and number in it
  for (const int cpu : allowed) {
    const std::filesystem::path topology =
        system / "cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    cores[{number_of(topology / "physical_package_id", 0), number_of(topology / "core_id", cpu)}]
        .push_back(cpu);
  }
  CoreMap map;
  for (auto& [place, cpus] : cores) map.cores.push_back(std::move(cpus));
  map.nodes = nodes_of(allowed, system / "node");
  return map;
}

bool place_thread(const std::vector<int>& core, const std::vector<int>& nodes) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : core) CPU_SET(cpu, &mask);
  const bool is_pinned = ::sched_setaffinity(0, sizeof mask, &mask) == 0;

  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, kMaxNodes / kBits> bits{};
  for (const int node : nodes) bits[static_cast<size_t>(node / kBits)] |= 1UL << (node % kBits);
  // glibc has no function for it. The kernel takes one bit less than it is told.
  return ::syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, bits.data(), kMaxNodes + 1) == 0 &&
         is_pinned;
}

}  // namespace stoker
