#include "train_directory.h"

#include <array>

#include "carillon/core/error.h"

namespace carillon {

void remove_run_files(const std::filesystem::path& train_dir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(train_dir, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == "metrics.jsonl" || name.starts_with("events.out.tfevents.") ||
                      (name.starts_with("model.ckpt-") && name.ends_with(".h5"));
    if (ours) std::filesystem::remove(entry.path(), error);
    if (error) break;
  }
  if (error) fail(ExitCode::io, "--fresh: cannot clear {}: {}", train_dir.string(), error.message());
}

std::vector<std::string> differences_that_matter(const CheckpointState& state, const nlohmann::json& option_values,
                                                 int tower_count) {
  constexpr std::array decisive{"batch_size",     "learning_rate", "learning_rate_decay",  "decay_steps",
                                "regularization", "pixel_scale",   "moving_average_decay", "seed",
                                "shuffle",        "towers"};
  const nlohmann::json before = nlohmann::json::parse(state.options_json, nullptr, false);
  nlohmann::json now = option_values;
  now["towers"] = tower_count;
  std::vector<std::string> lines;
  for (const char* key : decisive) {
    if (!before.is_object() || !before.contains(key) || !now.contains(key) || before[key] == now[key]) continue;
    const bool towers = std::string_view(key) == "towers";
    lines.push_back(fmt::format("{} was {} up to the checkpoint and is {} from here{}", key, before[key].dump(),
                                now[key].dump(), towers ? " (sums may round differently)" : ""));
  }
  return lines;
}

}  // namespace carillon
