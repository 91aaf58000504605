// The machine that `stoker bench` measures on, and whether it was left alone meanwhile.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace stoker {

/// The processor as the system names it, and how many of its threads there are.
struct Machine {
  std::string cpu;  ///< "unknown" where the system does not say
  unsigned num_logical_cores = 0;
};
Machine this_machine();

/// How many cores other processes keep busy. Figures mean something where that is next to nothing.
class OtherLoad {
 public:
  OtherLoad();

  /// The mean since it was made; none where the system does not say.
  std::optional<double> cores() const;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::optional<double> busy_s_;
};

}  // namespace stoker
