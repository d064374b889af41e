#include "src/launch/restarts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/core/text.h"
#include "src/launch/say.h"
#include "src/processes/passed_options.h"

namespace carillon {
namespace {

/// -1: there is no checkpoint.
std::int64_t newest_step(const std::filesystem::path& train_dir) {
  const auto checkpoints = list_checkpoints(train_dir);
  return checkpoints.empty() ? -1 : checkpoints.front();
}

}  // namespace

bool has_lost_rank(int exit_code, const std::string& error_line) {
  constexpr std::array<std::string_view, 6> causes{
      ": the process of rank ",           " hangs: it has been ",          " hangs, ", "without a response",
      "while the launcher ended the run", ": another rank ended the run; "};
  constexpr int signal_base = 128;  // of the exit code of a process that a signal ended
  // Without a line, all ranks were killed at once, for example because memory was exhausted.
  if (error_line.empty()) return crash_signal(exit_code) != 0;
  if (exit_code != static_cast<int>(ExitCode::failed) && exit_code <= signal_base) return false;
  return std::ranges::any_of(causes,
                             [&](std::string_view cause) { return error_line.find(cause) != std::string::npos; });
}

std::vector<std::string> resuming(const std::vector<std::string>& command) {
  return joined(without(command, {"resume", "fresh"}), {"--fresh=false", "--resume=auto"});
}

ChildResult run_with_restarts(const Launch& launch, const std::vector<std::string>& command,
                              const std::filesystem::path& train_dir, std::int64_t restarts) {
  std::vector<std::string> words = command;
  for (std::int64_t count = 0;;) {
    const std::int64_t before = newest_step(train_dir);
    ChildResult result = launch.run(words);
    if (!has_lost_rank(result.exit_code, result.error_line)) return result;
    if (result.stopped || stop_requested()) {
      result.stopped = true;
      if (!result.error_line.empty()) result.exit_code = static_cast<int>(ExitCode::stopped);
      return result;
    }
    if (restarts == 0) return result;
    const std::int64_t newest = newest_step(train_dir);
    if (newest > before) count = 0;
    if (count == restarts) {
      say(fmt::format("a rank was lost again; no restart is left: {} without a new checkpoint",
                      count_text(restarts, "restart")));
      result.exit_code = static_cast<int>(ExitCode::failed);
      return result;
    }
    ++count;
    const std::string place = newest < 0 ? "the beginning" : fmt::format("step {}", newest);
    say(fmt::format("a rank was lost; restarting from {} (restart {} of {} without a new checkpoint)", place, count,
                    restarts));
    words = resuming(command);
  }
}

}  // namespace carillon
