// Tests --ranks, with which a training program starts itself under mpirun.
#include "src/cli/launch/ranks.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "src/cli/options/option_groups.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnRanks : public ProgramFixture {
 protected:
  /// Returns the command of a training of `steps` steps in the directory `run`.
  std::string train(const std::string& run, const std::string& more, int steps = 3) const {
    return "mnist_train --data synthetic --device cpu --batch-size 20 --max-steps " + std::to_string(steps) +
           " --train-dir " + path(run) + " " + more;
  }
  /// The first lines of a script that replaces mpirun.
  static constexpr const char* stub =
      "#!/bin/sh\nif [ \"$1\" = --version ]; then PATH=${PATH#*:}; exec mpirun --version; fi\n";
  static constexpr const char* as_root = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";
};

TEST_F(OwnRanks, NoRankStartsOthers) {
  EXPECT_THAT(words_of_ranks({"--ranks", "2", "--threads", "1"}), ElementsAre("--threads", "1", "--ranks", "0"));
  EXPECT_THAT(words_of_ranks({"--threads=1", "--ranks=2"}), ElementsAre("--threads=1", "--ranks", "0"));
}

TEST_F(OwnRanks, TheCommandLinePrecedesTheConfigurationFile) {
  const std::string config = write("ranks.cfg", "ranks = 3\n");
  const Outcome outcome = run(train("two", "--ranks 2 --config " + config));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("; 2 ranks on CPU:0"));
}

TEST_F(OwnRanks, TrainAsUnderMpirun) {
  const Outcome own = run(train("own", "--ranks 2"));
  ASSERT_EQ(own.code, 0) << own.output;
  EXPECT_THAT(own.output, HasSubstr("; 2 ranks on CPU:0"));
  const Outcome by_hand = run(train("by-hand", ""), std::string(as_root) + "mpirun --oversubscribe -np 2 ");
  ASSERT_EQ(by_hand.code, 0) << by_hand.output;
  const Outcome compared = run("checkpoint_tool diff " + path("own") + " " + path("by-hand"));
  EXPECT_THAT(compared.output, HasSubstr("train_dir"));
  EXPECT_THAT(compared.output, Not(HasSubstr("ranks")));
  EXPECT_EQ(run("checkpoint_tool diff --arrays " + path("own") + " " + path("by-hand")).code, 0);
  // The same command, with another number of ranks, resumes the run.
  const Outcome resumed = run(train("own", "--ranks 1", 5));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("at step 3"));
}

TEST_F(OwnRanks, AreThoseOfTheConfigurationFileOrTheEnvironmentToo) {
  const Outcome file = run(train("file", "--config " + write("ranks.cfg", "ranks = 2\n")));
  EXPECT_EQ(file.code, 0) << file.output;
  EXPECT_THAT(file.output, HasSubstr("; 2 ranks on"));
  const Outcome environment = run(train("environment", ""), "CARILLON_RANKS=2 ");
  EXPECT_EQ(environment.code, 0) << environment.output;
  EXPECT_THAT(environment.output, HasSubstr("; 2 ranks on"));
  const Outcome overridden = run(train("overridden", "--ranks 1"), "CARILLON_RANKS=2 ");
  EXPECT_EQ(overridden.code, 0) << overridden.output;
  EXPECT_THAT(overridden.output, HasSubstr("; 1 rank on"));
}

/// The Slurm allocation has one task on this host. So mpirun would find only one slot for the two ranks.
TEST_F(OwnRanks, StartOnThisMachineInAnAllocationOfSlurm) {
  const std::string allocation =
      "SLURM_JOBID=7 SLURM_JOB_ID=7 SLURM_NODELIST=$(hostname) SLURM_TASKS_PER_NODE=1 SLURM_NNODES=1 ";
  const Outcome outcome = run(train("allocated", "--ranks 2"), allocation);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("; 2 ranks on"));
}

/// If srun starts a program without PMIx, it sets these variables. With these variables, Open MPI would try to use srun
/// as its launcher.
TEST_F(OwnRanks, AProgramThatIsAloneLeavesItsLauncher) {
  const std::string step = "SLURM_JOBID=7 SLURM_JOB_ID=7 SLURM_NODELIST=$(hostname) SLURM_STEP_ID=0 SLURM_PROCID=0 ";
  for (const std::string& launcher :
       {step + "SLURM_STEP_NUM_TASKS=1 ", std::string("SLURM_NODELIST=$(hostname) SLURM_STEP_ID=0 ")}) {
    const Outcome alone = run(train("alone", "--fresh"), launcher);
    EXPECT_EQ(alone.code, 0) << alone.output;
    EXPECT_THAT(alone.output, HasSubstr("; 1 rank on"));
  }
  expect_one_line(run(train("several", ""), step + "SLURM_STEP_NUM_TASKS=2 "), ExitCode::usage,
                  "mnist_train: Slurm started 2 tasks, but MPI sees only this one: use srun --mpi=pmix");
  // A rank has environment variables from mpirun. A program that the rank starts inherits them.
  const std::string twice = "\"$@\" --train-dir " + path("first") + " && \"$@\" --train-dir " + path("second");
  const Outcome both = run("mnist_train --data synthetic --device cpu --batch-size 20 --max-steps 3",
                           std::string(as_root) + "mpirun -np 1 sh -c '" + twice + "' sh ");
  EXPECT_EQ(both.code, 0) << both.output;
  EXPECT_TRUE(std::filesystem::exists(path("second/model.ckpt-3.h5")));
}

TEST_F(OwnRanks, CarillonTrainIsRefusedInSeveralProcesses) {
  expect_one_line(run("carillon train " + path("pictures"), "PMI_SIZE=2 PMI_RANK=0 "), ExitCode::usage,
                  "carillon: train: 2 processes were started (PMI_SIZE): start one, which starts its own ranks");
}

TEST_F(OwnRanks, AreRefusedUnderALauncher) {
  for (const std::string launcher : {"PMI_RANK=0 ", "PMIX_RANK=0 ", "SLURM_STEP_ID=0 "}) {
    for (const char* const ranks : {"--ranks 2", "--ranks 1"}) {
      const Outcome outcome = run(train("run", ranks), launcher);
      expect_one_line(outcome, ExitCode::usage, std::string(ranks) + ": mpirun, srun or another launcher has started");
      EXPECT_THAT(outcome.output, HasSubstr(launcher.substr(0, launcher.find('=')) + " is set"));
    }
  }
  const Outcome outcome = run(train("run", "--ranks 2"), std::string(as_root) + "mpirun --oversubscribe -np 2 ");
  EXPECT_EQ(outcome.code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--ranks 2: mpirun, srun or another launcher has started this process"));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(OwnRanks, EndWithTheExitCodeOfTheRun) {
  const Outcome missing =
      run("mnist_train --ranks 2 --device cpu --data " + path("none") + " --train-dir " + path("run"));
  EXPECT_EQ(missing.code, 66) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("no such file"));
  const Outcome diverged = run(train("diverged", "--ranks 2 --learning-rate 1e30"));
  EXPECT_EQ(diverged.code, 70) << diverged.output;
  EXPECT_EQ(run("mnist_train --ranks 2 --help").code, 0);
  expect_failure("mnist_train --ranks 2 --no-such-option", ExitCode::usage, "--no-such-option");
  expect_failure("mnist_train --ranks 0.5", ExitCode::usage, "--ranks: '0.5' is not a whole number of at least 0");
}

/// First case: all ranks are killed. Second case: one rank is killed, and the other ranks report this before they end.
TEST_F(OwnRanks, EndWith71IfASignalEndedARank) {
  for (const auto& [says, line] : {std::pair("", "mnist_train: signal 9 (Killed) ended a rank or mpirun"),
                                   std::pair("echo saved | tee -a $CARILLON_ERROR_FILE >&2;", "saved")}) {
    std::filesystem::permissions(write("mpirun", std::string(stub) + says + "kill -9 $$\n"),
                                 std::filesystem::perms::owner_all);
    const Outcome outcome = run(train("run", "--ranks 2"), "PATH=" + path("") + ":$PATH ");
    EXPECT_EQ(outcome.code, 71) << outcome.output;
    EXPECT_THAT(outcome.output, EndsWith(std::string(line) + "\n"));
  }
}

TEST_F(OwnRanks, StopWithoutAMessageOfMpirun) {
  const Outcome stopped = run(train("stopped", "--ranks 2 --time-limit 1 --time-margin 0", 100'000'000));
  EXPECT_EQ(stopped.code, 75) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("stopped by --time-limit"));
  EXPECT_THAT(stopped.output, Not(HasSubstr("Primary job"))) << "as mpirun says after an exit code of a rank";
  EXPECT_THAT(stopped.output, Not(HasSubstr("mpirun detected")));
}

/// Simulates a run that is stopped while it copies its data. The ranks report the stop, and mpirun prints nothing after
/// their line.
TEST_F(OwnRanks, PrintTheLineOfAStopOnce) {
  const std::string as_ranks =
      std::string(stub) + "echo said >&2\necho said >>$CARILLON_ERROR_FILE\necho 75 >>$CARILLON_CODE_FILE\n";
  std::filesystem::permissions(write("mpirun", as_ranks), std::filesystem::perms::owner_all);
  expect_one_line(run(train("run", "--ranks 2"), "PATH=" + path("") + ":$PATH "), ExitCode::stopped, "said");
}

TEST_F(OwnRanks, NeedMpirunOnlyIfThereAreSeveral) {
  expect_one_line(run(train("run", "--ranks 2"), "PATH=/nowhere "), ExitCode::no_input,
                  "mnist_train: --ranks 2: mpirun is not in PATH");
  std::filesystem::permissions(write("mpirun", std::string(stub) + "exit 3\n"), std::filesystem::perms::owner_all);
  const std::string instead = "PATH=" + path("") + ":$PATH ";
  EXPECT_EQ(run(train("run", "--ranks 2"), instead).code, 3);
  const Outcome one = run(train("run", "--ranks 1"), instead);
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("; 1 rank on"));
}

TEST_F(OwnRanks, RefuseTheMpirunOfAnotherMpi) {
  const std::string hydra = "#!/bin/sh\necho 'HYDRA build details:'\n";
  std::filesystem::permissions(write("mpirun", hydra), std::filesystem::perms::owner_all);
  const std::string instead = "PATH=" + path("") + ":$PATH ";
  const std::string refusal = "mpirun (HYDRA build details:) is not the mpirun of Open MPI ";
  expect_one_line(run(train("run", "--ranks 2"), instead), ExitCode::usage, refusal);
  const Outcome doctor = run("carillon doctor", instead);
  EXPECT_EQ(doctor.code, 64) << doctor.output;
  EXPECT_THAT(doctor.output, HasSubstr(refusal));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
  std::filesystem::permissions(write("mpirun", "#!/bin/sh\nexit 255\n"), std::filesystem::perms::owner_all);
  expect_one_line(run(train("run", "--ranks 2"), instead), ExitCode::usage,
                  "mpirun (it states no version) is not the mpirun of Open MPI ");
}

}  // namespace
}  // namespace carillon
