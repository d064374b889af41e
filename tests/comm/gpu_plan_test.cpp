#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/comm/allreduce/communicators.h"

namespace carillon::testing {
namespace {

using Places = std::vector<GpuPlace>;
using ::testing::HasSubstr;

const Places own{{"n1", "GPU-a", 2}, {"n1", "GPU-b", 2}, {"n2", "GPU-a", 2}, {"n2", "GPU-b", 2}};
const Places shared{{"n1", "GPU-a"}, {"n1", "GPU-b"}, {"n1", "GPU-a"}, {"n2", "GPU-c"}, {"n1", "GPU-a"}};

TEST(GpuPlan, OneRankIsAloneUnlessNcclIsAskedFor) {
  const Places one{{"n1", "GPU-a"}};
  EXPECT_EQ(plan_gpu_averaging(one, "auto").averaging, GpuAveraging::self);
  EXPECT_EQ(plan_gpu_averaging(one, "mpi").averaging, GpuAveraging::self);
  EXPECT_EQ(plan_gpu_averaging(one, "nccl").averaging, GpuAveraging::nccl);
}

TEST(GpuPlan, RanksWithAGpuEachTakeNcclUnlessMpiIsAskedFor) {
  for (const char* choice : {"auto", "nccl"}) {
    const GpuPlan plan = plan_gpu_averaging(own, choice);
    EXPECT_EQ(plan.averaging, GpuAveraging::nccl);
    EXPECT_EQ(plan.warning, "");
  }
  EXPECT_EQ(plan_gpu_averaging(own, "mpi").averaging, GpuAveraging::staged);
  EXPECT_EQ(plan_gpu_averaging(own, "mpi").warning, "");
}

TEST(GpuPlan, RanksThatShareAGpuAverageThroughTheHostAndAreTold) {
  const GpuPlan plan = plan_gpu_averaging(shared, "auto");
  EXPECT_EQ(plan.averaging, GpuAveraging::staged);
  EXPECT_EQ(
      plan.warning,
      "ranks 0, 2 and 4 share GPU-a on n1; without NVIDIA's MPS they take turns; NCCL cannot average between them, "
      "so gradients go through host memory and MPI");
  EXPECT_EQ(plan_gpu_averaging(shared, "mpi").warning, "");
}

TEST(GpuPlan, NcclIsRefusedToRanksThatShareAGpu) {
  try {
    plan_gpu_averaging(shared, "nccl");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::no_device);
    EXPECT_THAT(error.what(), HasSubstr("--comm nccl: ranks 0, 2 and 4 share GPU-a on n1"));
  }
}

TEST(GpuPlan, RanksThatSeeOnlyTheirOwnGpuAreAdvisedToSeeAll) {
  const Places hidden{{"n1", "GPU-a", 1}, {"n2", "GPU-c", 1}, {"n2", "GPU-d", 1}};
  for (const char* choice : {"auto", "nccl"}) {
    const GpuPlan plan = plan_gpu_averaging(hidden, choice);
    EXPECT_EQ(plan.averaging, GpuAveraging::nccl);
    EXPECT_EQ(plan.warning,
              "each rank on n2 sees only its own GPU, as with Slurm's --gpus-per-task; direct copies between these "
              "GPUs may fail inside NCCL: use --gpus-per-node, which shows all GPUs of a node to its ranks");
  }
  EXPECT_EQ(plan_gpu_averaging(hidden, "mpi").warning, "");
  const Places one_per_host{{"n1", "GPU-a", 1}, {"n2", "GPU-b", 1}};
  EXPECT_EQ(plan_gpu_averaging(one_per_host, "auto").warning, "");
}

TEST(GpuPlan, ManySharedGpusAreCountedNotListed) {
  Places places;
  for (int rank = 0; rank < 20; ++rank) places.push_back({"n1", fmt::format("GPU-{}", rank / 2)});
  const std::string warning = plan_gpu_averaging(places, "auto").warning;
  EXPECT_THAT(warning, HasSubstr("ranks 6 and 7 share GPU-3 on n1, and 6 more GPUs are shared; "));
}

}  // namespace
}  // namespace carillon::testing
