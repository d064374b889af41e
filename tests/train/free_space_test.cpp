#include "src/train/checkpointing/free_space.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path directory = std::filesystem::temp_directory_path();

TEST(FreeSpace, ForAllCheckpointsCausesNoWarning) {
  EXPECT_EQ(check_free_space(directory, {.checkpoint_bytes = 1, .count = 5}), "");
  EXPECT_EQ(check_free_space(directory / "not there", {.checkpoint_bytes = UINT64_MAX, .count = 5}), "");
}

TEST(FreeSpace, ForTheFirstButNotAllGivesAWarning) {
  EXPECT_THAT(check_free_space(directory, {.checkpoint_bytes = 1, .count = std::int64_t{1} << 60}),
              HasSubstr("the 1152921504606846976 checkpoints to come take"));
}

TEST(FreeSpace, ForNoCheckpointIsAnError) {
  const Error error =
      error_of([] { check_free_space(directory, {.checkpoint_bytes = std::uint64_t{1} << 60, .count = 1}); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_THAT(error.what(), HasSubstr("are free, a checkpoint takes 1099511627776.0 MiB"));
}

}  // namespace
}  // namespace carillon::testing
