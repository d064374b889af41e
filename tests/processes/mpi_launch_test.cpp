#include "src/processes/mpi_launch.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace carillon {
namespace {

using testing::ElementsAre;

/// Removes the variables of launchers, and restores them at the end.
class LauncherVariable : public testing::Test {
 protected:
  LauncherVariable() {
    for (const char* const name : names) {
      if (const char* const value = std::getenv(name)) before_.emplace_back(name, value);
      unsetenv(name);
    }
  }
  ~LauncherVariable() override {
    for (const char* const name : names) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  static constexpr std::array names{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_PTY_PORT", "PMIX_RANK",
                                    "PMIX_NAMESPACE",       "PMI_RANK",      "PMI_SIZE",       "PMI_FD",
                                    "MV2_COMM_WORLD_SIZE"};

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(LauncherVariable, IsOneThatALauncherSets) {
  EXPECT_EQ(launcher_variable(), "");
  for (const char* const name : names) {
    if (std::string_view(name) == "SLURM_PTY_PORT") continue;
    setenv(name, "0", 1);
    EXPECT_EQ(launcher_variable(), name);
    unsetenv(name);
  }
}

TEST_F(LauncherVariable, AShellOfSrunIsNoLauncher) {
  for (const char* const name : {"SLURM_PTY_PORT", "SLURM_STEP_ID", "PMI_RANK", "PMIX_RANK"}) setenv(name, "0", 1);
  EXPECT_EQ(launcher_variable(), "");
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launcher_variable(), "OMPI_COMM_WORLD_SIZE");
}

TEST(Launch, BindsRanksToTheirShareOfTheCores) {
  EXPECT_THAT(
      (Launch{.ranks = 2, .cores = 5}.command("/own/train", {"--seed", "3"})),
      ElementsAre("mpirun", "-np", "2", "--map-by", "slot:PE=2", "--bind-to", "core", "/own/train", "--seed", "3"));
  EXPECT_THAT((Launch{.ranks = 3, .cores = 2}.command("/own/train", {})),
              ElementsAre("mpirun", "-np", "3", "--oversubscribe", "--bind-to", "none", "/own/train"));
  EXPECT_THAT((Launch{.ranks = 1, .cores = 2}.command("/own/train", {})), ElementsAre("/own/train"));
}

}  // namespace
}  // namespace carillon
