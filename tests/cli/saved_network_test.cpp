#include "src/cli/launch/saved_network.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(SavedNetwork, ForWhichTheImagesAreTooLargeIsBadDataWithTheFilesName) {
  LoadedCheckpoint loaded{.path = "runs/model.ckpt-1.h5", .state = {}};
  loaded.state.model = "resnet9";
  loaded.state.options_json =
      R"({"image_size": 4096, "class count": 2, "first class label": 0, "preprocessing": "torchvision"})";
  const std::array program_specs{image_program()};
  const Error error = error_of([&] { network_of(loaded, program_specs); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), ::testing::StartsWith("runs/model.ckpt-1.h5: the network resnet9 requires"));
}

}  // namespace
}  // namespace carillon::testing
