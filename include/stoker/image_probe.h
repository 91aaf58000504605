// Whether images of processes could be tried on this machine. Nothing else needs what is asked for
// here: snapshots (stoker/snapshot.h) come up without any of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace stoker {

/// One thing that an image of a process needs. Texts are lines.
struct ImageNeed {
  std::string name;      ///< "criu", "criu check", "privileges", "kernel"
  std::string expected;  ///< "4.2 or newer in PATH"
  std::string found;
  bool is_met = false;
};

struct ProbeOptions {
  std::string criu = "criu";                ///< the program, looked for in PATH where it has no '/'
  std::chrono::milliseconds limit{10'000};  ///< for each time that it runs
};

/// Asks this machine; what it is asked about comes in the order above. Runs criu twice, without a
/// shell, and reads at most 64 KiB of what it says. Any thread.
std::vector<ImageNeed> probe_process_images(const ProbeOptions& options = {});

}  // namespace stoker
