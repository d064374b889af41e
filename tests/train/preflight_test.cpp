#include "src/train/preflight/preflight.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(HostFactsTest, NumbersInARowStandAsARange) {
  EXPECT_EQ(range_text(std::vector<int>{}), "");
  EXPECT_EQ(range_text(std::vector{3}), "3");
  EXPECT_EQ(range_text(std::vector{0, 1}), "0,1");
  EXPECT_EQ(range_text(std::vector{0, 1, 2, 3, 8, 10, 11, 12}), "0-3,8,10-12");
}

TEST(HostFactsTest, InterfacesAreThoseOfTheSystem) {
  for (const std::string& interface : network_interfaces()) {
    EXPECT_EQ(interface.find("127."), interface.npos) << interface;
    EXPECT_NE(interface.find(' '), interface.npos) << interface;
  }
}

using enum LockState;

TEST(PreflightTest, AnUnheldLockOnItsOwnHostIsNone) {
  EXPECT_EQ(lock_text({free}, {"a"}), "no locks there: runs know of each other by .heartbeat");
  EXPECT_EQ(lock_text({none, held}, {"a", "b"}), "no locks there: runs know of each other by .heartbeat");
}

TEST(PreflightTest, OtherHostsAreNamedByWhatTheyFind) {
  EXPECT_EQ(lock_text({held}, {"a"}), "locks hold");
  EXPECT_EQ(lock_text({held, held, held}, {"a", "b", "c"}), "locks hold, from b, c too");
  EXPECT_EQ(lock_text({held, absent, held}, {"a", "b", "c"}),
            "locks hold, from c too; the directory does not contain .lock on b: it is not shared");
  EXPECT_EQ(lock_text({held, free}, {"a", "b"}), "locks hold; but not across hosts: a run on b would not be refused");
  EXPECT_EQ(lock_text({held, none}, {"a", "b"}), "locks hold; none on b");
}

/// Returns the facts of three ranks: two ranks on one host, and one rank on another host.
std::vector<RankFacts> facts() {
  return {{.host = "short",
           .device = "CPU",
           .instructions = "avx2",
           .threads = 2,
           .cpus = {0, 1},
           .memory = 2e9,
           .dev_shm = 1e9,
           .interfaces = {"eth0 10.0.0.1", "ib0 10.1.0.1"},
           .tells_of_host = true},
          {.host = "short", .device = "CPU", .instructions = "avx2", .threads = 10, .cpus = {1, 2, 3}},
          {.host = "much-longer",
           .device = "GPU:0",
           .threads = 1,
           .cpus = {1},
           .memory = 1e6,
           .quota = 1.5,
           .dev_shm = 67e6,
           .tells_of_host = true}};
}

TEST(PreflightTest, EachRankHasARow) {
  EXPECT_EQ(rank_table(facts()),
            "rank  host         device     threads  CPUs\n"
            "   0  short        CPU, avx2        2  0,1\n"
            "   1  short        CPU, avx2       10  1-3\n"
            "   2  much-longer  GPU:0            1  1\n");
}

TEST(PreflightTest, EachHostHasARow) {
  EXPECT_EQ(host_table(facts()),
            "host         ranks  memory free  /dev/shm free  CPU quota  network interfaces\n"
            "short            2  2.00 GB      1.00 GB        none       eth0 10.0.0.1, ib0 10.1.0.1\n"
            "much-longer      1  1.00 MB      67.0 MB        1.5 cores  \n");
}

TEST(PreflightTest, AHostWithTooLittleRoomForMessagesIsNamed) {
  EXPECT_EQ(small_dev_shm(facts()), "") << "one rank sends no messages within its host";
  std::vector<RankFacts> small = facts();
  small[0].dev_shm = 8388607;
  EXPECT_EQ(
      small_dev_shm(small),
      "/dev/shm on short has 8.39 MB free, and the messages of MPI between 2 ranks need 8.39 MB there: enlarge it, "
      "for example with docker run --shm-size=1g");
  small[0].dev_shm = 8388608;
  EXPECT_EQ(small_dev_shm(small), "");
  small[0].instructions = "";  // the values that a rank with a GPU reports
  small[0].dev_shm = 67e6;
  EXPECT_EQ(
      small_dev_shm(small),
      "/dev/shm on short has 67.0 MB free, and the messages of NCCL between 2 ranks need 1.00 GB there: enlarge it, "
      "for example with docker run --shm-size=1g");
}

TEST(PreflightTest, CpusThatRanksOfOneHostShareAreNamed) {
  EXPECT_EQ(shared_cpus(facts()), "ranks 0 and 1 on short share the CPUs 1: more ranks than cores take turns");
  std::vector<RankFacts> apart = facts();
  apart[1].cpus = {2, 3};
  EXPECT_EQ(shared_cpus(apart), "");
}

}  // namespace
}  // namespace carillon
