#include "base/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stoker {
namespace {

TEST(Machine, HasCoresAndMemory) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(usable_memory_bytes(), 1 << 20);
}

TEST(Machine, TheLeastLimitOfAllGroupsAboveCounts) {
  const auto root =
      std::filesystem::temp_directory_path() / ("stoker_cgroup_" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "a/b");
  const auto limit = [&](const char* file, int64_t otherwise) {
    return least_limit(root.string(), "/a/b", file, otherwise);
  };
  EXPECT_EQ(limit("memory.max", 900), 900) << "no file says anything";
  std::ofstream(root / "a/b/memory.max") << "max\n";
  std::ofstream(root / "a/memory.max") << "500\n";
  std::ofstream(root / "memory.max") << "700\n";
  EXPECT_EQ(limit("memory.max", 900), 500);
  EXPECT_EQ(limit("memory.max", 300), 300);
  std::ofstream(root / "a/cpu.max") << "150000 100000\n";
  std::ofstream(root / "a/b/cpu.max") << "max 100000\n";
  EXPECT_EQ(limit("cpu.max", 8'000'000), 1'500'000) << "one and a half cores";
  EXPECT_EQ(least_limit(root.string(), "/", "cpu.max", 42), 42);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace stoker
