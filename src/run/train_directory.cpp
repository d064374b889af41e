#include "src/run/train_directory.h"

#include <array>

#include "carillon/app/app.h"
#include "carillon/core/error.h"

namespace carillon {

void remove_run_files(const std::filesystem::path& train_dir) {
  std::vector<std::filesystem::path> ours{train_dir / "metrics.jsonl"};
  for (const std::int64_t step : list_checkpoints(train_dir)) ours.push_back(checkpoint_path(train_dir, step));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir, error)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  for (const std::filesystem::path& path : ours) {
    if (!error) std::filesystem::remove(path, error);
  }
  if (error) fail(ExitCode::io, "--fresh: cannot clear {}: {}", train_dir.string(), error.message());
}

std::vector<std::string> differences_that_matter(const CheckpointState& state, const nlohmann::json& option_values) {
  constexpr std::array decisive{"batch_size",
                                "learning_rate",
                                "learning_rate_decay",
                                "decay_steps",
                                "regularization",
                                "pixel_scale",
                                "moving_average_decay",
                                "seed",
                                "shuffle",
                                "distort",
                                "precision",
                                "tower count",
                                "training records",
                                "training record checksum"};
  const nlohmann::json before = nlohmann::json::parse(state.options_json, nullptr, false);
  std::vector<std::string> lines;
  for (const std::string key : decisive) {
    if (!before.is_object() || !before.contains(key) || !option_values.contains(key)) continue;
    if (before[key] == option_values[key]) continue;
    lines.push_back(fmt::format("{} was {} up to the checkpoint and is {} from here{}", shown_key(key),
                                before[key].dump(), option_values[key].dump(),
                                key == "tower count" ? " (sums may round differently)" : ""));
  }
  return lines;
}

}  // namespace carillon
