#include "src/comm/mpi/cpu_share.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

namespace carillon::testing {
namespace {

TEST(DivideCpus, SharesAreDisjointAndLeaveNoneIdle) {
  const std::vector<int> cpus{0, 2, 4, 6, 8, 10, 12};
  for (int count = 1; count <= 7; ++count) {
    std::vector<int> all;
    for (int index = 0; index < count; ++index) {
      const std::vector<int> share = divide_cpus(cpus, index, count);
      EXPECT_FALSE(share.empty());
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, cpus) << count;
  }
}

TEST(DivideCpus, MoreRanksThanCpusGetOneEach) {
  for (int index = 0; index < 4; ++index) EXPECT_EQ(divide_cpus({5, 6}, index, 4), std::vector{index < 2 ? 5 : 6});
}

TEST(CpuTopology, HardwareThreadsOfACoreCountAsOne) {
  const CpuTopology topology("pack:2 core:3 pu:2");  // the CPUs of the cores: {0, 1}, {2, 3}, ... {10, 11}
  EXPECT_EQ(topology.core_count({0, 1}), 1);
  EXPECT_EQ(topology.core_count({1, 2}), 2);
  EXPECT_EQ(topology.core_count({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), 6);
  EXPECT_EQ(topology.core_count({0, 100, 101}), 3) << "CPUs that the system does not tell of";
  EXPECT_EQ(topology.core_count({}), 0);
}

TEST(CpuTopology, ACoreOfWhichAContainerAllowsOneHardwareThreadCounts) {
  const CpuTopology topology("core:4 pu:2");
  EXPECT_EQ(topology.core_count({1, 3, 5}), 3);
}

/// Returns the CPUs on which the kernel lets the calling thread run.
std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(CpuTopology, BindsTheCallingThreadAlone) {
  const std::vector<int> before = affinity();
  std::thread([&] {
    const CpuTopology topology;
    EXPECT_EQ(topology.allowed_cpus(), before);
    const std::vector<int> last{before.back()};
    topology.bind_to(last);
    EXPECT_EQ(affinity(), last);
    EXPECT_EQ(topology.allowed_cpus(), last);
    EXPECT_EQ(CpuTopology().core_count(last), 1) << "seen from within the restriction";
    EXPECT_EQ(topology.allowed_cpus(getpid()), before) << "the process's main thread";
  }).join();
  EXPECT_EQ(affinity(), before);
}

}  // namespace
}  // namespace carillon::testing
