#include "src/app/own_ranks.h"

#include "carillon/core/error.h"
#include "src/processes/child_process.h"
#include "src/processes/mpi_launch.h"
#include "src/processes/passed_options.h"

namespace carillon {

void check_ranks(const DeviceOptions& options, const std::string& launcher) {
  if (options.ranks == 0 || launcher.empty()) return;
  fail(ExitCode::usage,
       "--ranks {}: mpirun, srun or another launcher has started this process ({} is set): omit --ranks, and give the "
       "launcher the number of ranks",
       options.ranks, launcher);
}

std::vector<std::string> words_of_ranks(const std::vector<std::string>& words) {
  return joined(without(words, {"ranks"}), {"--ranks", "0"});  // a configuration file may set it, too
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

}  // namespace carillon
