#include "src/train/checkpointing/train_directory.h"

#include <system_error>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

void remove_run_files(const std::filesystem::path& train_dir) {
  std::vector<std::filesystem::path> ours{train_dir / "metrics.jsonl", best_checkpoint_path(train_dir)};
  for (const std::int64_t step : list_checkpoints(train_dir)) ours.push_back(checkpoint_path(train_dir, step));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir, error)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  if (error) fail(ExitCode::io, "--fresh: cannot list {}: {}", train_dir.string(), error.message());
  for (const std::filesystem::path& path : ours) remove_file(path);
}

}  // namespace carillon
