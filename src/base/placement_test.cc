#include "base/placement.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/machine.h"
#include "base/worker_pool.h"

namespace stoker {
namespace {

using Cores = std::vector<std::vector<int>>;

// A made /sys, removed with it.
class MadeSystem {
 public:
  MadeSystem() { std::filesystem::create_directories(root_); }
  ~MadeSystem() { std::filesystem::remove_all(root_); }
  MadeSystem(const MadeSystem&) = delete;
  MadeSystem& operator=(const MadeSystem&) = delete;

  const std::filesystem::path& root() const { return root_; }
  void write(const std::string& name, const std::string& text) const {
    const auto path = root_ / "sys/devices/system" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void write_cpu(int cpu, int package, int core) const {
    const std::string topology = "cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(topology + "physical_package_id", std::to_string(package));
    write(topology + "core_id", std::to_string(core));
  }

 private:
  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("stoker_system_" + std::to_string(::getpid()));
};

TEST(Placement, CoresAndNodesOfWhatIsAllowed) {
  const MadeSystem made;
  // Two packages of two cores with two hyper-threads each; node 2 has memory alone, node 3 none.
  for (int cpu = 0; cpu < 8; ++cpu) made.write_cpu(cpu, cpu % 4 / 2, cpu % 2);
  made.write("node/has_memory", "0-2");
  made.write("node/node0/cpulist", "0-1,4-5");
  made.write("node/node1/cpulist", "2-3,6-7");
  made.write("node/node2/cpulist", "");
  made.write("node/node3/cpulist", "0-7");

  const CoreMap all = core_map({0, 1, 2, 3, 4, 5, 6, 7}, made.root());
  EXPECT_EQ(all.cores, (Cores{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(all.nodes, (std::vector<int>{0, 1}));
  const CoreMap some = core_map({2, 6, 7}, made.root());
  EXPECT_EQ(some.cores, (Cores{{2, 6}, {7}}));
  EXPECT_EQ(some.nodes, std::vector<int>{1});
}

TEST(Placement, WhatTheSystemDoesNotTell) {
  const MadeSystem made;
  const CoreMap nothing = core_map({3, 9}, made.root());
  EXPECT_EQ(nothing.cores, (Cores{{3}, {9}}));
  EXPECT_TRUE(nothing.nodes.empty());
  for (const char* list : {"", "x", "-1", "0-", "99999", "1,,0"}) {
    made.write("node/has_memory", list);
    made.write("node/node0/cpulist", "0-99");
    EXPECT_TRUE(core_map({3, 9}, made.root()).nodes.empty()) << list;
  }
}

// The memory policy of the calling thread.
int memory_policy() {
  int policy = -1;
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0), 0);
  return policy;
}

TEST(Placement, AThreadKeepsToItsCoreAndSpreadsItsMemory) {
  const std::vector<int> allowed = allowed_processors();
  bool is_placed = false;
  std::thread placed([&] {
    is_placed = place_thread({allowed.back()}, {0});
    if (!is_placed) return;
    EXPECT_EQ(allowed_processors(), std::vector<int>{allowed.back()});
    EXPECT_EQ(memory_policy(), MPOL_INTERLEAVE);
  });
  placed.join();
  EXPECT_EQ(allowed_processors(), allowed) << "and no other thread does";
  if (!is_placed) GTEST_SKIP() << "SKIP: the system lets nobody choose a policy of memory";
}

// The processors that each worker of a pool may use, by worker.
std::vector<std::vector<int>> processors_of(WorkerPool& pool) {
  std::vector<std::vector<int>> found(static_cast<size_t>(pool.num_threads()));
  std::atomic<int> num_here{0};
  // Each piece waits for the others, so that each worker has one.
  pool.run(pool.num_threads(), [&](int64_t /*piece*/, int worker) {
    found[static_cast<size_t>(worker)] = allowed_processors();
    ++num_here;
    while (num_here < pool.num_threads()) std::this_thread::yield();
  });
  return found;
}

TEST(Placement, ThreadsOfAWholeMachineStayOnTheirCores) {
  const std::vector<int> allowed = allowed_processors();
  CoreMap map = core_map(allowed);
  const int num_cores = usable_cores(map);
  if (num_cores < 2 || map.cores.size() != static_cast<size_t>(num_cores))
    GTEST_SKIP() << "SKIP: this process may not use two whole cores";
  map.nodes = {0, 1};  // as if there were two
  WorkerPool whole(num_cores, map);
  const auto found = processors_of(whole);
  EXPECT_EQ(found[0], allowed) << "the caller is not ours";
  for (size_t worker = 1; worker < found.size(); ++worker)
    EXPECT_EQ(found[worker], map.cores[worker]);

  WorkerPool more(num_cores + 1, map);
  for (const auto& processors : processors_of(more)) EXPECT_EQ(processors, allowed);
  map.nodes = {0};
  WorkerPool one_node(num_cores, map);
  for (const auto& processors : processors_of(one_node)) EXPECT_EQ(processors, allowed);
}

}  // namespace
}  // namespace stoker
