// Where threads and the memory that they touch belong, on machines with more than one NUMA node.
#pragma once

#include <filesystem>
#include <vector>

namespace stoker {

/// What this process may use.
struct CoreMap {
  std::vector<std::vector<int>> cores;  ///< numbers of the processors of each physical core
  std::vector<int> nodes;               ///< NUMA nodes of these that have memory; may be empty
};

/// The processors in the calling thread's affinity mask.
std::vector<int> allowed_processors();

/// The physical cores and the nodes of these processors; `root` is where /sys is mounted. A
/// processor of which the system tells nothing is a core of its own, on no node.
CoreMap core_map(const std::vector<int>& allowed, const std::filesystem::path& root = "/");

/// Keeps the calling thread on one core, and spreads the pages that it is the first to touch,
/// those of files too, over the nodes by turns. False: the system refused one of the two.
bool place_thread(const std::vector<int>& core, const std::vector<int>& nodes);

}  // namespace stoker
