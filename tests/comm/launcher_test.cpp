#include "src/comm/mpi/launcher.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "tests/support/failure.h"

namespace carillon {
namespace {

/// Removes the environment variables of launchers for a test, and restores them afterwards.
class Launcher : public testing::Test {
 protected:
  Launcher() {
    for (const char* const name : names) {
      if (const char* const value = std::getenv(name)) before_.emplace_back(name, value);
      unsetenv(name);
    }
  }
  ~Launcher() override {
    for (const char* const name : names) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  static constexpr std::array names{"OMPI_COMM_WORLD_SIZE",
                                    "SLURM_STEP_ID",
                                    "PMIX_RANK",
                                    "PMIX_NAMESPACE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "PMI_FD",
                                    "MV2_COMM_WORLD_SIZE",
                                    "SLURM_PTY_PORT",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_PROCID"};

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(Launcher, IsNamedByAVariable) {
  EXPECT_EQ(launcher_variable(), "");
  constexpr std::size_t settings = 3;  // the last names are names of settings, which also exist without a launcher
  for (const char* const name : std::span(names).first(names.size() - settings)) {
    setenv(name, "0", 1);
    EXPECT_EQ(launcher_variable(), name);
    unsetenv(name);
  }
}

TEST_F(Launcher, AShellOfSrunIsNone) {
  for (const char* const name : {"SLURM_PTY_PORT", "SLURM_STEP_ID", "PMI_RANK", "PMIX_RANK"}) setenv(name, "0", 1);
  EXPECT_EQ(launcher_variable(), "");
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launcher_variable(), "OMPI_COMM_WORLD_SIZE");
}

using Variables = std::vector<std::pair<std::string, std::string>>;

void set(const Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

TEST_F(Launcher, IsLeftByTheOnlyProcess) {
  for (const Variables& variables : {Variables{{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}},
                                     {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
                                     {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}},
                                     {{"SLURM_STEP_ID", "0"}},  // as if SLURM_STEP_NUM_TASKS had been removed
                                     {{"SLURM_PTY_PORT", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}},
                                     {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}}) {
    set(variables);
    check_launcher();
    for (const auto& [name, value] : variables) {
      if (name != "SLURM_PTY_PORT") {
        EXPECT_EQ(std::getenv(name.c_str()), nullptr) << name;
      }
    }
    unsetenv("SLURM_PTY_PORT");
  }
}

TEST_F(Launcher, IsKeptByOneOfSeveralProcesses) {
  for (const Variables& variables :
       {Variables{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}},
        {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_NAMESPACE", "7"}}}) {
    set(variables);
    check_launcher();
    for (const auto& [name, value] : variables) {
      EXPECT_STREQ(std::getenv(name.c_str()), value.c_str());
      unsetenv(name.c_str());
    }
  }
}

TEST_F(Launcher, OfTasksWithoutPmiIsRefusedOnce) {
  set({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_PROCID", "0"}});
  const Failure failed = failure_of([] { check_launcher(); });
  EXPECT_EQ(failed.code, ExitCode::usage);
  EXPECT_EQ(failed.text,
            "Slurm started 3 tasks, but MPI sees only this one: use srun --mpi=pmix (or env -u "
            "SLURM_STEP_NUM_TASKS if each task runs alone)");
  setenv("SLURM_PROCID", "1", 1);
  EXPECT_THROW(check_launcher(), PeerFailed);
}

TEST_F(Launcher, SettingsOfTheUserStay) {
  const std::vector<std::string> kept{"OMPI_MCA_btl",        "OMPI_MCA_odls_base_sigkill_timeout",
                                      "PMIX_MCA_gds",        "OMPI_ALLOW_RUN_AS_ROOT",
                                      "PMIX_INSTALL_PREFIX", "SLURM_JOB_ID"};
  const std::vector<std::string> removed{"OMPI_MCA_ess",       "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid",
                                         "OMPI_UNIVERSE_SIZE", "PMIX_SERVER_URI2",      "PMI_FD",
                                         "SLURM_STEP_ID"};
  Variables before;
  for (const auto& group : {kept, removed}) {
    for (const std::string& name : group) {
      if (const char* const value = std::getenv(name.c_str())) before.emplace_back(name, value);
      setenv(name.c_str(), "1", 1);
    }
  }
  leave_launcher();
  for (const std::string& name : kept) {
    EXPECT_STREQ(std::getenv(name.c_str()), "1") << name;
    unsetenv(name.c_str());
  }
  for (const std::string& name : removed) EXPECT_EQ(std::getenv(name.c_str()), nullptr) << name;
  set(before);
}

}  // namespace
}  // namespace carillon
