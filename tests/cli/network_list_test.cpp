#include "src/cli/commands/model_help.h"

#include <gmock/gmock.h>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"
#include "src/tasks/classification.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

TEST(NetworkList, HasSizeWorkAndSpeedOfEachNetwork) {
  std::vector<std::string> measured;
  const std::string list = network_list(mnist_program(), {28, 28, 1}, 10, [&](const NamedNetwork& network) {
    measured.push_back(network.name);
    return StepTime{.batch_size = 50, .seconds = 0.25};
  });
  EXPECT_EQ(measured, (std::vector<std::string>{"mnist", "lenet", "vgg7"}));
  EXPECT_THAT(list, HasSubstr("mnist       397510                 397000       50        0.25       200\n"));
}

TEST(NetworkList, StatesWhyANetworkIsNotMeasured) {
  const auto measure = [](const NamedNetwork& network) -> std::optional<StepTime> {
    EXPECT_NE(network.name, "resnet18_cifar") << "36 billion multiply-adds an image";
    if (network.name == "resnet18") return std::nullopt;
    return StepTime{.batch_size = 1, .seconds = 1.0};
  };
  const std::string list = network_list(image_program(), {.height = 256, .width = 256, .channels = 3}, 10, measure);
  EXPECT_THAT(list, HasSubstr("  not measured: more than 30 billion multiply-adds\n"));
  EXPECT_THAT(list, HasSubstr("  not measured: the others took too long\n"));
  EXPECT_THAT(list,
              HasSubstr("airbench94            the network airbench94 requires square images of 12 x 12 to 128 x 128"));
}

StepTimeSettings small_step(std::int64_t batch_size, double seconds) {
  return {.network = {.image = {28, 28, 1}, .outputs = 10},
          .task = classification_task({.classes = 10}),
          .batch_size = batch_size,
          .seconds = seconds};
}

TEST(StepTime, IsThatOfTheRequestedBatchIfTimeSuffices) {
  CpuDevice device(1);
  const StepTime time = measure_step(network_named(mnist_program(), "mnist"), small_step(32, 1.0), device);
  EXPECT_EQ(time.batch_size, 32);
  EXPECT_GT(time.seconds, 0.0);
}

TEST(StepTime, IsThatOfASmallerBatchIfTimeIsShort) {
  CpuDevice device(1);
  const StepTime time = measure_step(network_named(mnist_program(), "lenet"), small_step(1 << 16, 0.2), device);
  EXPECT_GE(time.batch_size, 1);
  EXPECT_LT(time.batch_size, 1 << 16);
}

TEST(StepTime, IsThatOfASmallerBatchIfMemoryIsShort) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(1 << 14, 1000.0);
  settings.processes = 1 << 12;
  EXPECT_LT(measure_step(network_named(mnist_program(), "lenet"), settings, device).batch_size, 1 << 14);
}

TEST(StepTime, RefusesAnImageThatTheMemoryCannotHold) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(4, 1.0);
  settings.processes = std::numeric_limits<int>::max();
  try {
    measure_step(network_named(mnist_program(), "vgg7"), settings, device);
    FAIL() << "it was measured";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("the network vgg7 needs more than half of the free memory"));
  }
}

/// airbench94 mirrors images by their record numbers.
TEST(StepTime, IncludesTheDistortionOfImages) {
  CpuDevice device(1);
  StepTimeSettings settings = small_step(8, 0.5);
  settings.network = {.image = {32, 32, 3}, .outputs = 10, .distort = true};
  EXPECT_GT(measure_step(network_named(cifar10_program(), "airbench94"), settings, device).seconds, 0.0);
}

TEST(StepTime, OfPicturesIsThatOfTheStatedSize) {
  const ProgramSpec program = image_program();
  const auto airbench = std::ranges::find(program.networks, "airbench94", &NamedNetwork::name);
  const auto seconds = [&](std::int64_t image_size) {
    return training_seconds_per_image(*airbench, {.image_size = image_size, .batch_size = 8, .seconds = 0.2});
  };
  EXPECT_GT(seconds(32), 0.0);
  EXPECT_THROW(seconds(256), Error) << "the network takes at most 128 x 128 pixels";
}

}  // namespace
}  // namespace carillon::testing
