#include "src/train/checkpointing/run_checkpoints.h"

#include <filesystem>

#include "src/train/loop/training_setup.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

class CheckpointSize : public RunTest {};

TEST_F(CheckpointSize, IsWellAboveWhatARunWritesAndOfItsOrder) {
  options_.optimizer.max_steps = 1;
  train();
  const std::uintmax_t written = std::filesystem::file_size(checkpoint_path(train_dir(), 1));
  const std::uint64_t max_bytes = max_checkpoint_bytes(network_to_train(options_));
  EXPECT_LT(4 * written, max_bytes);
  EXPECT_LT(max_bytes, 50 * written);
}

}  // namespace
}  // namespace carillon::testing
