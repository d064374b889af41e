#include "src/core/resources.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

class ControlGroups : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, text);
  }
  ControlGroupFiles files() const { return {directory_.path() / "self", directory_.path() / "root"}; }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ControlGroups, WithoutLimitsAreUnlimited) {
  EXPECT_FALSE(cpu_quota(files()));
  EXPECT_TRUE(memory_limits(files()).empty());
  put("self", "0::/job\n");
  put("root/job/cpu.max", "max 100000\n");
  put("root/job/memory.max", "max\n");
  put("root/job/memory.current", "5\n");
  EXPECT_FALSE(cpu_quota(files()));
  EXPECT_TRUE(memory_limits(files()).empty());
}

TEST_F(ControlGroups, OfVersion2HaveTheLeastQuotaOfTheirParents) {
  put("self", "0::/slice/job\n");
  put("root/slice/job/cpu.max", "400000 100000\n");
  put("root/slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(files()), 1.5);
  put("root/slice/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(files()), 0.5);
}

TEST_F(ControlGroups, OfVersion1AreInTheFolderOfTheirController) {
  put("self", "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n1:name=systemd:/\n0::/\n");
  put("root/cpu/cpu.cfs_quota_us", "200000\n");  // in a container, the root is the container's own cgroup
  put("root/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(files()), 2.0);
  put("root/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  put("root/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(files()), 2.0);
  put("root/memory/memory.limit_in_bytes", "1000\n");
  put("root/memory/memory.usage_in_bytes", "300\n");
  put("root/memory/memory.memsw.limit_in_bytes", "1500\n");
  ASSERT_EQ(memory_limits(files()).size(), 1u);
  EXPECT_EQ(memory_limits(files())[0].bytes, 1000u);
  EXPECT_EQ(memory_limits(files())[0].used_bytes, 300u);
  EXPECT_EQ(memory_limits(files())[0].swap_bytes, 500u);
}

TEST_F(ControlGroups, OfVersion2MayLimitSwap) {
  put("self", "0::/\n");
  put("root/memory.max", "1000\n");
  put("root/memory.current", "300\n");
  put("root/memory.swap.max", "0\n");
  EXPECT_EQ(memory_limits(files()).at(0).swap_bytes, 0u);
}

TEST(CoresWithin, IsThePartOfAQuotaRoundedUp) {
  EXPECT_EQ(cores_within(std::nullopt, 4), 4);
  EXPECT_EQ(cores_within(1.5, 4), 2);
  EXPECT_EQ(cores_within(2.0, 4), 2);
  EXPECT_EQ(cores_within(8.0, 4), 4);
  EXPECT_EQ(cores_within(0.2, 4), 1);
  EXPECT_EQ(cores_within(3.0, 4, 2), 2);
  EXPECT_EQ(cores_within(2.0, 4, 4), 1);
  EXPECT_EQ(cores_within(std::nullopt, 0), 1);
}

TEST(Memory, IsLimitedByTheAddressSpace) {
  const pid_t child = fork();
  if (child == 0) {
    // `left`: number of bytes that the process may still allocate. `returned`: number of bytes that the process may
    // free meanwhile.
    constexpr rlim_t left = rlim_t{64} << 20, returned = rlim_t{1} << 20;
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + left;
    const rlimit small{limit, limit};
    const bool is_limited = setrlimit(RLIMIT_AS, &small) == 0;
    _exit(is_limited && available_memory_bytes() <= left + returned && total_memory_bytes() == limit ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace carillon::testing
