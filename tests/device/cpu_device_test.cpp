#include "src/device/cpu_device.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <limits>

namespace carillon::testing {
namespace {

/// Whether the calling thread rounds a product below the normal numbers to zero, and takes such an operand for zero.
bool flushes() {
  volatile float smallest = std::numeric_limits<float>::min(), half = 0.5f;
  volatile float denormal = std::numeric_limits<float>::denorm_min(), large = 1e30f;
  return smallest * half == 0.0f && denormal * large == 0.0f;
}

TEST(CpuDevice, FlushesDenormalsInEveryThreadThatComputes) {
  // threads of the pool that were there before, with denormals
  omp_set_num_threads(3);
  std::atomic<int> flushing = 0;
#pragma omp parallel
  flushing += flushes();
  ASSERT_EQ(flushing, 0) << "of the pool's threads before there is a device";

  const CpuDevice device(4);
#pragma omp parallel
  flushing += flushes();
  EXPECT_EQ(flushing, 4);
}

TEST(CpuDevice, GivesItsWorkspaceTheLargestSizeAskedFor) {
  CpuDevice device(1);
  device.reserve_workspace(1000);
  device.reserve_workspace(10);
  static_cast<char*>(device.workspace())[999] = 1;
  EXPECT_EQ(static_cast<char*>(device.workspace())[999], 1);
}

}  // namespace
}  // namespace carillon::testing
