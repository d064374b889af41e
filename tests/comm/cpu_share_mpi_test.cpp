#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <cstdlib>

#include "src/comm/mpi/cpu_share.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

/// Tests in which mpirun has not bound the ranks to CPUs. After each test, the fixture restores the affinity.
class CpuShareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv(bound_);
    unsetenv(policy_);
    topology_.bind_to(usable_);
  }
  void TearDown() override {
    SetUp();
    omp_set_num_threads(threads_);
  }

  /// Expects that `share` is this rank's part of an even division of all CPUs.
  void expect_even_shares(const CpuShare& share) const {
    EXPECT_EQ(share.cpus, divide_cpus(usable_, mpi_.local_rank(), mpi_.local_size()));
    EXPECT_EQ(topology_.allowed_cpus(), share.cpus);
    EXPECT_EQ(share.thread_count, topology_.core_count(share.cpus));
    EXPECT_EQ(omp_get_max_threads(), share.thread_count);
  }

  static constexpr const char* bound_ = "OMPI_MCA_orte_bound_at_launch";
  static constexpr const char* policy_ = "OMPI_MCA_hwloc_base_binding_policy";
  const Mpi& mpi_ = mpi_world();
  const CpuTopology topology_;
  const std::vector<int> usable_ = topology_.allowed_cpus(getppid());  // CPUs that mpirun, the parent process, may use
  const int threads_ = omp_get_max_threads();
};

TEST_F(CpuShareTest, UnboundRanksDivideTheCpusOfTheHost) { expect_even_shares(take_cpu_share(mpi_, 0)); }

TEST_F(CpuShareTest, RanksThatTheLauncherBoundByItsOwnDefaultDivideTheCpusOfTheHost) {
  setenv(bound_, "1", 1);
  topology_.bind_to({usable_[static_cast<std::size_t>(mpi_.rank()) % usable_.size()]});
  expect_even_shares(take_cpu_share(mpi_, 0));
}

TEST_F(CpuShareTest, ABindingThatGivesEachRankItsOwnIsKept) {
  if (usable_.size() < static_cast<std::size_t>(mpi_.size())) return;  // there are too few CPUs for such a binding
  setenv(bound_, "1", 1);
  setenv(policy_, "core", 1);  // as `mpirun --bind-to core` does
  const std::vector<int> own{usable_[usable_.size() - 1 - static_cast<std::size_t>(mpi_.rank())]};
  topology_.bind_to(own);
  const CpuShare share = take_cpu_share(mpi_, 0);
  EXPECT_EQ(share.cpus, own);
  EXPECT_EQ(share.thread_count, 1);
  EXPECT_EQ(topology_.allowed_cpus(), own);
}

TEST_F(CpuShareTest, RanksBoundToTheSameCpusDivideThese) {
  topology_.bind_to({usable_.back()});
  EXPECT_EQ(take_cpu_share(mpi_, 0).cpus, std::vector{usable_.back()});
}

TEST_F(CpuShareTest, ThreadsAskedForOverrideTheCores) {
  const CpuShare share = take_cpu_share(mpi_, 3);
  EXPECT_EQ(share.thread_count, 3);
  EXPECT_EQ(omp_get_max_threads(), 3);
}

}  // namespace
}  // namespace carillon::testing
