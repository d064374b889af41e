#include "src/comm/mpi/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {
namespace {

constexpr const char* slurm_tasks = "SLURM_STEP_NUM_TASKS";

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::string first_set(std::initializer_list<const char*> names) {
  const auto found = std::ranges::find_if(names, is_set);
  return found == names.end() ? "" : *found;
}

/// A shell of srun --pty has the variables of a Slurm step, although no MPI launcher started its programs.
bool is_in_a_shell_of_slurm() { return is_set("SLURM_PTY_PORT"); }

/// True if a launcher sets the variable for each process that it starts. The list does not contain variables that users
/// set.
bool belongs_to_launcher(std::string_view name) {
  constexpr std::array<std::string_view, 17> names{
      "SLURM_STEP_ID", "SLURM_STEPID", slurm_tasks,
      // Settings that Open MPI 4.1's mpirun passes to its ranks:
      "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_orte_app_num",
      "OMPI_MCA_orte_bound_at_launch", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_jobfam_session_dir",
      "OMPI_MCA_orte_launch", "OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_orte_num_nodes",
      "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_orte_top_session_dir", "OMPI_MCA_shmem_RUNTIME_QUERY_hint"};
  constexpr std::array<std::string_view, 2> own_settings{"OMPI_MCA_ess_base_", "OMPI_MCA_orte_ess_"};
  constexpr std::array<std::string_view, 5> prefixes{"OMPI_", "PMIX_", "PMI_", "PRTE_", "MV2_COMM_WORLD_"};
  constexpr std::array<std::string_view, 5> settings{"OMPI_MCA_", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_", "PRTE_MCA_",
                                                     "PMIX_INSTALL_PREFIX"};
  if (std::ranges::find(names, name) != names.end()) return true;
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (std::ranges::any_of(own_settings, begins)) return true;
  return std::ranges::any_of(prefixes, begins) && std::ranges::none_of(settings, begins);
}

[[noreturn]] void refuse_tasks(int count) {
  // Only one task prints the error, because all tasks find the same error.
  const char* const task = std::getenv("SLURM_PROCID");
  if (task != nullptr && std::string_view(task) != "0") throw PeerFailed(ExitCode::usage);
  fail(ExitCode::usage,
       "Slurm started {} tasks, but MPI sees only this one: use srun --mpi=pmix (or env -u {} if each task runs alone)",
       count, slurm_tasks);
}

}  // namespace

std::string launcher_variable() {
  if (is_in_a_shell_of_slurm()) return first_set({"OMPI_COMM_WORLD_SIZE"});
  return first_set({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_ID", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE",
                    "PMI_FD", "MV2_COMM_WORLD_SIZE"});
}

LaunchedProcesses launched_processes() {
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", slurm_tasks, "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (is_set(variable)) return {std::atoi(std::getenv(variable)), variable};
    if (is_in_a_shell_of_slurm()) break;
  }
  return {};
}

void leave_launcher() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (belongs_to_launcher(name)) names.emplace_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  // If SLURM_NODELIST were set without a job ID, Open MPI's MPI_Init would search for the nodes of a Slurm step.
  if (!is_set("SLURM_JOBID") && !is_set("SLURM_JOB_ID")) unsetenv("SLURM_NODELIST");
}

void check_launcher() {
  const std::string launcher = launcher_variable();
  const auto [count, variable] = launched_processes();
  const bool is_alone = count == 1 || (count == 0 && (launcher.empty() || launcher == "SLURM_STEP_ID"));
  if (is_alone) return leave_launcher();
  const bool has_pmi = !first_set({"PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "PMI_FD"}).empty();
  if (variable == slurm_tasks && !has_pmi) refuse_tasks(count);
}

void check_that_ranks_are_connected(int size, const std::string& library) {
  const auto [count, variable] = launched_processes();
  if (size > 1 || count <= 1) return;
  if (variable == slurm_tasks) refuse_tasks(count);
  fail(ExitCode::usage,
       "{} processes were started ({}), but MPI sees only this one: the launcher belongs to another MPI than {}; use "
       "the mpirun of that MPI",
       count, variable, library);
}

}  // namespace carillon
