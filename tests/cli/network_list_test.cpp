#include "src/cli/commands/commands.h"

#include <gmock/gmock.h>

#include "carillon/core/error.h"
#include "src/cli/launch/machine_speed.h"

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

TEST(MachineSpeed, IsThatOfTheStatedSize) {
  MachineSpeed speed({.launch = {.ranks = 1, .cores = 1}});
  EXPECT_GT(speed.seconds_per_picture({"airbench94", 32}), 0.0);
  EXPECT_THROW(speed.seconds_per_picture({"airbench94", 256}), Error) << "the network takes at most 128 x 128 pixels";
}

}  // namespace
}  // namespace carillon::testing
