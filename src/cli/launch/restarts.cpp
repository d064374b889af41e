#include "src/cli/launch/restarts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/option_set.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// The exit code of Open MPI's mpirun if it loses the connection to a host.
constexpr int lost_host_code = 205;

/// Returns the step of the newest checkpoint, or -1 if there is no checkpoint.
std::int64_t newest_step(const fs::path& train_dir) {
  if (train_dir.empty()) return -1;
  const auto checkpoints = list_checkpoints(train_dir);
  return checkpoints.empty() ? -1 : checkpoints.front();
}

using FileIdentity = std::tuple<std::string, ino_t, time_t>;  ///< name, inode, time of the last change

/// Returns the checkpoints in the train directory, from the newest to the oldest.
std::vector<FileIdentity> checkpoint_files(const fs::path& train_dir) {
  std::vector<FileIdentity> files;
  if (train_dir.empty()) return files;
  for (const std::int64_t step : list_checkpoints(train_dir)) {
    const std::string path = checkpoint_path(train_dir, step);
    struct stat status {};
    if (stat(path.c_str(), &status) == 0) files.emplace_back(path, status.st_ino, status.st_mtime);
  }
  return files;
}

/// Returns the value of the option in a configuration file. Ignores faults in the file, because the program reports
/// them.
std::optional<std::string> value_in_file(const std::string& path, const std::string& name) {
  if (path.empty()) return std::nullopt;
  try {
    for (const ConfigValue& line : config_values(path)) {
      if (line.name == name) return line.values.empty() ? "" : line.values.front();
    }
  } catch (const Error&) {
  }
  return std::nullopt;
}

}  // namespace

bool has_lost_rank(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::lost_rank) || exit_code == lost_host_code ||
         crash_signal(exit_code) != 0;
}

std::string option_value(const Words& words, const std::string& name) {
  const auto in_words = [&](const std::string& option) -> std::optional<std::string> {
    const Words found = only(words, {option});
    if (found.empty()) return std::nullopt;
    const std::size_t equals = found.front().find('=');
    if (equals != std::string::npos) return found.front().substr(equals + 1);
    return found.size() > 1 && !found[1].starts_with("--") ? found[1] : "";
  };
  if (const auto value = in_words(name)) return *value;
  const char* const default_config = std::getenv("CARILLON_CONFIG");
  const std::string config = in_words("config").value_or(default_config == nullptr ? "" : default_config);
  if (const auto value = value_in_file(config, name)) return *value;
  const char* const value = std::getenv(variable_of(name).c_str());
  return value == nullptr ? "" : value;
}

fs::path train_directory(const fs::path& program, const Words& options) {
  const std::string given = option_value(options, "train-dir");
  if (!given.empty()) return given;
  constexpr std::pair<std::string_view, ProgramSpec (*)()> specs[] = {
      {"mnist_train", mnist_program}, {"cifar10_train", cifar10_program}, {"image_train", image_program}};
  for (const auto& [name, spec] : specs) {
    if (program.filename() == name) return spec().defaults.checkpoint.train_dir;
  }
  return {};
}

namespace {

/// True if a run with this value of --resume does not continue from the newest checkpoint.
bool starts_elsewhere(const std::string& resume) { return resume == "never" || resume == "best"; }

}  // namespace

Words resuming(const Words& options) {
  Words words;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& word = options[i];
    const std::string next = i + 1 < options.size() ? options[i + 1] : "";
    if (word == "--fresh") {
      if (is_bool(next)) ++i;
    } else if (word == "--resume" && starts_elsewhere(next)) {
      ++i;
    } else if (!word.starts_with("--fresh=") && word != "--resume=never" && word != "--resume=best") {
      words.push_back(word);
    }
  }
  if (!option_value(words, "fresh").empty()) words.emplace_back("--fresh=false");
  if (starts_elsewhere(option_value(words, "resume"))) words.emplace_back("--resume=auto");
  return words;
}

ChildResult run_with_restarts(const RestartedTraining& training) {
  const fs::path program = training.program.front();
  const Words options(training.program.begin() + 1, training.program.end());
  const fs::path train_dir = train_directory(program, options);
  const std::vector<FileIdentity> earlier = checkpoint_files(train_dir);
  const bool resumes_from_best = option_value(options, "resume") == "best";
  const auto command = [&](const Words& with) {
    return joined(joined(training.launcher, {training.program.front()}), with);
  };
  Words words = command(options);
  std::int64_t count = 0;
  for (int start = 1;; ++start) {
    const std::int64_t before = newest_step(train_dir);
    ChildResult result = training.run(words, start);
    if (!has_lost_rank(result.exit_code)) return result;
    if (result.stopped || stop_requested()) {
      result.stopped = true;
      if (result.exit_code == static_cast<int>(ExitCode::lost_rank))
        result.exit_code = static_cast<int>(ExitCode::stopped);
      return result;
    }
    if (training.restarts == 0 || !training.may_restart()) return result;
    const std::int64_t newest = newest_step(train_dir);
    if (newest > before) count = 0;
    if (count == training.restarts) {
      training.report(
          fmt::format("a rank was lost again; no restart is left: {} without a new checkpoint", training.restarts));
      result.exit_code = static_cast<int>(ExitCode::failed);
      return result;
    }
    ++count;
    const std::vector<FileIdentity> files = checkpoint_files(train_dir);
    const bool has_begun = resumes_from_best ? files.empty() || earlier.empty() || files.front() != earlier.front()
                                             : std::ranges::find_first_of(files, earlier) == files.end();
    if (has_begun) words = command(resuming(options));
    const std::string place = newest < 0 ? "the beginning" : fmt::format("step {}", newest);
    training.report(fmt::format("a rank was lost; restarting from {} (restart {} of {} without a new checkpoint)",
                                place, count, training.restarts));
  }
}

}  // namespace carillon
