#include "src/processes/mpi_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/core/file_tools.h"

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
  // The shell of srun --pty has the variables of its step, but no mpirun started it.
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
  constexpr const char* pause = "OMPI_MCA_odls_base_sigkill_timeout";  // mpirun pauses twice so long
  if (std::getenv(pause) == nullptr) settings.environment.push_back(std::string(pause) + "=15");
  // In an allocation of a batch system, mpirun would use its hosts and count its tasks as slots.
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
  // mpirun may hang after its ranks have ended; then a signal ends it.
  if (has_stopped && (result.exit_code == 0 || crash_signal(result.exit_code) != 0)) {
    result.exit_code = static_cast<int>(ExitCode::stopped);
  }
  const bool is_buried = ranks > 1 && result.exit_code != 0 && !has_stopped;  // by mpirun's lines
  if (is_buried && !result.error_line.empty()) print_text(STDERR_FILENO, result.error_line + "\n");
  return result;
}

}  // namespace carillon
