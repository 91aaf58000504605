#include "server/process_families.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily process_family(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(metric);
  return family;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Pages of the process: all, and those in memory.
std::optional<std::pair<double, double>> num_pages() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return std::pair(all, resident);
}

// Of the system, seconds of the Unix clock.
std::optional<double> boot_time() {
  std::ifstream file("/proc/stat");
  std::string word;
  double value = 0;
  while (file >> word) {
    if (word == "btime" && file >> value) return value;
  }
  return std::nullopt;
}

// Of this process, the same.
std::optional<double> start_time() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const size_t name_end = text.rfind(')');  // the name may hold blanks
  if (name_end == std::string::npos) return std::nullopt;
  constexpr int kStartField = 20;  // of those behind the name
  size_t at = name_end + 1;
  for (int i = 1; i < kStartField && at != std::string::npos; ++i) at = text.find(' ', at + 1);
  const auto boot = boot_time();
  if (!boot || at == std::string::npos) return std::nullopt;
  const double ticks = std::strtod(text.c_str() + at, nullptr);
  return *boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<double> num_open_descriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error))
    ++count;
  if (error) return std::nullopt;
  return count - 1;  // the one that lists them
}

}  // namespace

std::vector<MetricFamily> process_families() {
  std::vector<MetricFamily> out;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    out.push_back(process_family("process_cpu_seconds_total", "User and system time.",
                                 MetricType::Counter,
                                 seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)));
  }
  if (const auto start = start_time()) {
    out.push_back(process_family("process_start_time_seconds", "Of the Unix clock.",
                                 MetricType::Gauge, *start));
  }
  if (const auto pages = num_pages()) {
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    out.push_back(process_family("process_virtual_memory_bytes", "Mapped.", MetricType::Gauge,
                                 pages->first * page_bytes));
    out.push_back(process_family("process_resident_memory_bytes", "In memory.", MetricType::Gauge,
                                 pages->second * page_bytes));
  }
  if (const auto open = num_open_descriptors()) {
    out.push_back(
        process_family("process_open_fds", "Open descriptors.", MetricType::Gauge, *open));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.push_back(process_family("process_max_fds", "The most that may be open.", MetricType::Gauge,
                                 static_cast<double>(limit.rlim_cur)));
  }
  return out;
}

}  // namespace stoker
