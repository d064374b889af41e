#include "src/cli/launch/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/launch/child_process.h"
#include "src/cli/launch/passed_options.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"

namespace carillon {

namespace fs = std::filesystem;

fs::path programs_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::string program_as_called(const std::string& program) {
  const fs::path own = program_invocation_name, file = programs_folder() / program;
  const bool is_in_path = !own.has_parent_path();
  const fs::path named = is_in_path ? find_in_path(program) : own.parent_path() / program;
  std::error_code absent;
  if (!fs::equivalent(named, file, absent)) return file.string();
  return is_in_path ? program : named.string();
}

int usable_cores() {
  const CpuTopology topology;
  return std::max(1, topology.core_count(topology.allowed_cpus()));
}

std::string launcher_variable() {
  const auto first_of = [](std::initializer_list<const char*> names) -> std::string {
    for (const char* const name : names) {
      if (std::getenv(name) != nullptr) return name;
    }
    return {};
  };
  // A shell of srun --pty has the variables of a Slurm step, although no MPI launcher started the program.
  if (std::getenv("SLURM_PTY_PORT") != nullptr) return first_of({"OMPI_COMM_WORLD_SIZE"});
  return first_of({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_ID", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE",
                   "PMI_FD", "MV2_COMM_WORLD_SIZE"});
}

fs::path find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::vector<std::string> Launch::command(const std::string& program, const std::vector<std::string>& options) const {
  std::vector<std::string> words;
  if (ranks > 1) {
    words = {"mpirun", "-np", std::to_string(ranks)};
    if (geteuid() == 0) words.emplace_back("--allow-run-as-root");  // for example in a container
    if (ranks > cores) {
      words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
    } else {
      words.insert(words.end(), {"--map-by", fmt::format("slot:PE={}", cores / ranks), "--bind-to", "core"});
    }
  }
  words.push_back(program_as_called(program));
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

ChildSettings Launch::settings() const {
  ChildSettings settings{.stop_signal = SIGUSR1, .death_signal = SIGUSR1};
  settings.is_mpirun = ranks > 1;
  constexpr const char* pause = "OMPI_MCA_odls_base_sigkill_timeout";  // duration of each of mpirun's two pauses
  if (std::getenv(pause) == nullptr) settings.environment.push_back(std::string(pause) + "=15");
  // In a job of a batch system, mpirun would use the hosts of the job and count its tasks as slots.
  settings.environment.emplace_back("OMPI_MCA_ras=^slurm,tm,lsf,gridengine");
  settings.environment.emplace_back("OMPI_MCA_plm=^slurm,tm,lsf");
  settings.environment.push_back("CARILLON_RANKS=0");  // a rank must not start ranks
  return settings;
}

ChildResult Launch::run(const std::vector<std::string>& words) const {
  ChildSettings with_error = settings();
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  std::string path = (folder / "carillon-error-XXXXXX").string();
  const Descriptor file(unknown ? -1 : mkostemp(path.data(), O_CLOEXEC));
  if (!file) return run_child(words, with_error);  // without repeating the error at the end
  const RemovedAtEnd removed(path);
  with_error.environment.push_back("CARILLON_ERROR_FILE=" + path);
  if (ranks > 1) with_error.environment.push_back("CARILLON_STOP_FILE=" + path);
  ChildResult result = run_child(words, with_error);
  bool has_stopped = false;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const bool is_stop = line + '\n' == stopped_line;
    has_stopped = has_stopped || is_stop;
    if (!is_stop) result.error_line = line;
  }
  // mpirun may hang after its ranks have ended; in this case, run_child ends it by a signal.
  if (has_stopped && (result.exit_code == 0 || crash_signal(result.exit_code) != 0)) {
    result.exit_code = static_cast<int>(ExitCode::stopped);
  }
  const bool is_buried = ranks > 1 && result.exit_code != 0 && !has_stopped;  // mpirun's own lines hide the error line
  if (is_buried && !result.error_line.empty()) print_text(STDERR_FILENO, result.error_line + "\n");
  return result;
}

void check_ranks(const DeviceOptions& options, const std::string& launcher) {
  if (options.ranks == 0 || launcher.empty()) return;
  fail(ExitCode::usage,
       "--ranks {}: mpirun, srun or another launcher has started this process ({} is set): omit --ranks, and give the "
       "launcher the number of ranks",
       options.ranks, launcher);
}

std::vector<std::string> words_of_ranks(const std::vector<std::string>& words) {
  return joined(without(words, {"ranks"}), {"--ranks", "0"});  // a configuration file may set ranks, too
}

int run_ranks(const std::string& program, int ranks, const std::vector<std::string>& words) {
  if (find_in_path("mpirun").empty()) {
    fail(ExitCode::no_input, "--ranks {}: mpirun is not in PATH: install Open MPI (package openmpi-bin)", ranks);
  }
  hold_stop_signals();
  const Launch launch{.ranks = ranks, .cores = usable_cores()};
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe"), link = own.parent_path() / program;
  std::error_code absent;
  const std::string start = std::filesystem::equivalent(link, own, absent) ? link.string() : own.string();
  return exit_code_of(launch.run(launch.command(start, words)), "a rank or mpirun");
}

namespace {

/// The step of the newest checkpoint; -1: there is no checkpoint.
std::int64_t newest_step(const std::filesystem::path& train_dir) {
  const auto checkpoints = list_checkpoints(train_dir);
  return checkpoints.empty() ? -1 : checkpoints.front();
}

}  // namespace

bool has_lost_rank(int exit_code, const std::string& error_line) {
  constexpr std::array<std::string_view, 6> causes{
      ": the process of rank ",           " hangs: it has been ",          " hangs, ", "without a response",
      "while the launcher ended the run", ": another rank ended the run; "};
  constexpr int signal_base = 128;  // offset of the exit code of a process that a signal ended
  // If there is no error line, all ranks were killed at the same time, for example because memory was exhausted.
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

void say(const std::string& line) {
  fmt::print("carillon: {}\n", printable(line, line.size()));
  std::fflush(stdout);
}

}  // namespace carillon
