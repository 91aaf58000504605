// What of the machine this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/placement.h"

namespace stoker {

/// Physical cores in this process's affinity mask, at most as many as the CPU quota of its control
/// group and those above it. At least 1.
int usable_cores();
/// The same of a map of them.
int usable_cores(const CoreMap& map);

/// Bytes of memory: the machine's, or the least limit of this process's control group and those
/// above it.
int64_t usable_memory_bytes();

/// Of these, what can be had without anybody's loss: files in the page cache count as free. Of a
/// control group only the limit counts, not what it uses. `root` is where /proc is mounted.
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// The least value of `file` ("memory.max") over a control group of version 2 and its parents, or
/// `otherwise` where none sets one. `root` is where the hierarchy is mounted, `group` the path of
/// the group under it ("/a/b").
int64_t least_limit(const std::filesystem::path& root, const std::filesystem::path& group,
                    const std::string& file, int64_t otherwise);

/// What times of kernels hang on. Where the system does not tell, texts are empty.
struct HardwareFacts {
  std::string processor;  ///< vendor, family, model, name and stepping of the first one
  int num_cores = 1;      ///< usable_cores()
  int num_numa_nodes = 1;
  std::vector<std::string> caches;  ///< of the first processor, "1 Data 48K"
  int64_t page_bytes = 0;
};

/// Of this machine; `root` is where /proc and /sys are mounted.
HardwareFacts hardware_facts(const std::filesystem::path& root = "/");

}  // namespace stoker
