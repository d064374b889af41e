#include "src/train/preflight/step_time.h"

#include <gmock/gmock.h>

#include <limits>

#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "src/device/cpu_device.h"
#include "src/tasks/classification.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

StepTimeSettings small_step(std::int64_t batch_size, double seconds) {
  return {.network = {.image = {28, 28, 1}, .outputs = 10},
          .task = classification_task({.classes = 10}),
          .batch_size = batch_size,
          .seconds = seconds};
}

TEST(StepTime, IsThatOfTheRequestedBatchIfTimeSuffices) {
  CpuDevice device(1);
  const StepTime time = measure_step(mnist_network, small_step(32, 1.0), device);
  EXPECT_EQ(time.batch_size, 32);
  EXPECT_GT(time.seconds, 0.0);
}

TEST(StepTime, IsThatOfASmallerBatchIfTimeIsShort) {
  CpuDevice device(1);
  const StepTime time = measure_step(lenet_network, small_step(1 << 16, 0.2), device);
  EXPECT_GE(time.batch_size, 1);
  EXPECT_LT(time.batch_size, 1 << 16);
}

TEST(StepTime, IsThatOfASmallerBatchIfMemoryIsShort) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(1 << 14, 1000.0);
  settings.processes = 1 << 12;
  EXPECT_LT(measure_step(lenet_network, settings, device).batch_size, 1 << 14);
}

TEST(StepTime, RefusesAnImageThatTheMemoryCannotHold) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(4, 1.0);
  settings.processes = std::numeric_limits<int>::max();
  try {
    measure_step(vgg7_network, settings, device);
    FAIL() << "it was measured";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("the network vgg7 needs more than half of the free memory"));
  }
}

/// airbench94 mirrors images. The number of an image's record determines whether the image is mirrored.
TEST(StepTime, IncludesTheDistortionOfImages) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(8, 0.5);
  settings.network = {.image = {32, 32, 3}, .outputs = 10, .distort = true};
  EXPECT_GT(measure_step(airbench94_network, settings, device).seconds, 0.0);
}

}  // namespace
}  // namespace carillon::testing
