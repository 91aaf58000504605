#include "bench_machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

namespace stoker {
namespace {

double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Processor time of all others, from the first line of /proc/stat: "cpu", then ticks of user, nice,
// system, idle, waiting, interrupts, soft interrupts, stolen.
std::optional<double> others_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  std::array<double, 8> ticks{};
  if (!(file >> word)) return std::nullopt;
  for (double& count : ticks) {
    if (!(file >> count)) return std::nullopt;
  }
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK)) - own_seconds();
}

}  // namespace

Machine this_machine() {
  Machine machine{"unknown", std::thread::hardware_concurrency()};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    machine.cpu = line.substr(colon + 2);
    break;
  }
  return machine;
}

OtherLoad::OtherLoad() : begin_(std::chrono::steady_clock::now()), busy_s_(others_seconds()) {}

std::optional<double> OtherLoad::cores() const {
  const std::optional<double> busy_s = others_seconds();
  if (!busy_s || !busy_s_) return std::nullopt;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  return std::max(0.0, (*busy_s - *busy_s_) / seconds.count());
}

}  // namespace stoker
