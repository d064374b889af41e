#include "src/train/checkpointing/checkpoint_size.h"

#include <filesystem>

#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

class CheckpointSize : public RunTest {};

TEST_F(CheckpointSize, IsWellAboveWhatARunWritesAndOfItsOrder) {
  options_.max_steps = 1;
  train();
  const std::uintmax_t written = std::filesystem::file_size(checkpoint_path(train_dir(), 1));
  const std::uint64_t max_bytes = max_checkpoint_bytes(options_.network());
  EXPECT_LT(4 * written, max_bytes);
  EXPECT_LT(max_bytes, 50 * written);
}

}  // namespace
}  // namespace carillon::testing
