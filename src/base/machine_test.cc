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

TEST(Machine, MemoryThatIsAvailableIsNotMoreThanThatOfTheMachine) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), usable_memory_bytes());
  const auto root =
      std::filesystem::temp_directory_path() / ("stoker_memory_" + std::to_string(::getpid()));
  EXPECT_EQ(available_memory_bytes(root), usable_memory_bytes()) << "nothing is told";
  std::filesystem::create_directories(root / "proc");
  std::ofstream(root / "proc/meminfo") << "MemTotal: 9 kB\nMemAvailable:      123 kB\n";
  EXPECT_EQ(available_memory_bytes(root), 123 << 10);
  std::filesystem::remove_all(root);
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

TEST(Machine, ToldByItsFiles) {
  const auto root =
      std::filesystem::temp_directory_path() / ("stoker_facts_" + std::to_string(::getpid()));
  const HardwareFacts nothing = hardware_facts(root);
  EXPECT_EQ(nothing.processor, "");
  EXPECT_EQ(nothing.num_numa_nodes, 1);
  EXPECT_TRUE(nothing.caches.empty());
  EXPECT_EQ(nothing.num_cores, usable_cores());
  EXPECT_GE(nothing.page_bytes, 4096);
  const auto system = root / "sys/devices/system";
  std::filesystem::create_directories(root / "proc");
  for (const char* folder : {"node/node0", "node/node1", "cpu/cpu0/cache/index0"})
    std::filesystem::create_directories(system / folder);
  std::ofstream(root / "proc/cpuinfo")
      << "processor\t: 0\nvendor_id\t: Maker\ncpu family\t: 6\n"
         "model\t\t: 9\nmodel name\t: A: B\nstepping\t:\nno colon\n"
         "cpu MHz\t: 17\n\nmodel name\t: second\n";
  std::ofstream(system / "cpu/cpu0/cache/index0/level") << "1\n";
  std::ofstream(system / "cpu/cpu0/cache/index0/type") << "Data\n";
  std::ofstream(system / "cpu/cpu0/cache/index0/size") << "48K\n";
  const HardwareFacts facts = hardware_facts(root);
  EXPECT_EQ(facts.processor, "Maker, 6, 9, A: B, ");
  EXPECT_EQ(facts.num_numa_nodes, 2);
  EXPECT_EQ(facts.caches, std::vector<std::string>{"1 Data 48K"});
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace stoker
