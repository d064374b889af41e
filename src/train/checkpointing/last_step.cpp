#include "src/train/checkpointing/last_step.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "src/checkpoint/directory_lock.h"
#include "src/train/checkpointing/training_state.h"

namespace carillon {

namespace {

std::string save(const LastStep& last) {
  const std::filesystem::path& directory = last.options.train_dir;
  if (!std::filesystem::is_directory(directory)) return {};
  const std::filesystem::path path = checkpoint_path(directory, last.position.step);
  const std::string saved = fmt::format("; saved step {} in {}", last.position.step, path.string());
  if (last.may_exist && std::filesystem::exists(path)) return saved;
  std::optional<DirectoryLock> lock;
  if (last.must_lock) lock.emplace(directory);
  CheckpointState state = state_at(last.position, last.model, last.description.json());
  last.tower.save_whole_step(state);
  check_finite(state);
  write_checkpoint(path, std::move(state));
  return saved;
}

}  // namespace

std::string save_last_step(const LastStep& last) noexcept try {
  try {
    return save(last);
  } catch (const std::exception& error) {
    return fmt::format("; step {} is not saved: {}", last.position.step, error.what());
  }
} catch (...) {  // no memory for the text
  return {};
}

}  // namespace carillon
