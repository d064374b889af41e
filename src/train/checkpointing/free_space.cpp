#include "src/train/checkpointing/free_space.h"

#include <fmt/format.h>

#include "carillon/core/error.h"

namespace carillon {
namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error || space.capacity == 0) return {};
  const std::uint64_t available = space.available;
  if (available < needed.checkpoint_bytes) {
    fail(ExitCode::io, "--train-dir {}: {:.1f} MiB are free, a checkpoint takes {:.1f} MiB", directory.string(),
         mib(available), mib(needed.checkpoint_bytes));
  }
  const double all = mib(needed.checkpoint_bytes) * static_cast<double>(needed.count);
  if (mib(available) >= all) return {};
  return fmt::format("--train-dir {}: {:.1f} MiB are free, the {} checkpoints to come take {:.1f} MiB",
                     directory.string(), mib(available), needed.count, all);
}

}  // namespace carillon
