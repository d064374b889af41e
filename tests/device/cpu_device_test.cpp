#include "src/device/cpu_device.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cfenv>
#include <limits>
#include <thread>

#include "carillon/core/denormals.h"

namespace carillon::testing {
namespace {

/// Whether the calling thread rounds a product below the normal numbers to zero, and takes such an operand for zero.
bool flushes() {
  volatile float smallest = std::numeric_limits<float>::min(), half = 0.5f;
  volatile float denormal = std::numeric_limits<float>::denorm_min(), large = 1e30f;
  return smallest * half == 0.0f && denormal * large == 0.0f;
}

TEST(CpuDevice, FlushesDenormalsInEveryThreadThatComputes) {
  std::fenv_t environment;
  std::fegetenv(&environment);
  environment.__mxcsr &= ~0x8040u;  // as a program begins: in the pool's threads, too, that are there already
  omp_set_num_threads(3);
  std::atomic<int> flushing = 0;
#pragma omp parallel
  {
    std::fesetenv(&environment);
    flushing += flushes();
  }
  ASSERT_EQ(flushing, 0) << "before there is a device";

  const CpuDevice device(4);
#pragma omp parallel
  flushing += flushes();
  EXPECT_EQ(flushing, 4);
}

TEST(FlushDenormals, CountsForThreadsThatAreStartedLater) {
  flush_denormals();
  bool flushed = false;
  std::thread([&] { flushed = flushes(); }).join();
  EXPECT_TRUE(flushed);
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
