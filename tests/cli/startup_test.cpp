// Tests which options a program rejects before it reads a file, which precision a checkpoint stores, and what a run
// prints if ranks fail.
#include <gmock/gmock.h>

#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class Startup : public ProgramFixture {};

TEST_F(Startup, RefusesAnInstructionSetThatThereIsNot) {
  expect_failure("mnist_train --device cpu --isa avx1024", ExitCode::usage,
                 "--isa: 'avx1024' is not one of auto, plain, avx2, avx512, avx512_bf16, amx");
}

TEST_F(Startup, RefusesAGroupOfNoVariableBeforeItReadsAnything) {
  expect_failure("mnist_train --group 'bias*: rate=2'", ExitCode::usage,
                 "--group: 'bias*' matches no variable; there are: layer1/weights, layer1/biases, layer2/weights");
}

TEST_F(Startup, RefusesPrecisionsOfGpusOnACpuWithTheReason) {
  expect_failure("mnist_train --device cpu --precision tf32", ExitCode::no_device,
                 "--precision tf32 requires a GPU; the device is CPU:0: use --precision fp32");
}

TEST_F(Startup, NamesTheOptionsThatReplaceTensorFlowsFlags) {
  expect_failure("cifar10_train --num_gpus=4", ExitCode::usage,
                 "--num-gpus: each rank uses one GPU: start one rank per GPU with mpirun -np N cifar10_train");
  expect_failure("cifar10_eval --eval_data test", ExitCode::usage, "--eval-data: use --data");
  expect_failure("cifar10_eval --run_once", ExitCode::usage, "--run-once: this program evaluates one checkpoint");
  expect_failure("mnist_eval --checkpoint_dir x", ExitCode::usage, "--checkpoint-dir: use --checkpoint");
}

TEST_F(Startup, WithoutDataDescribesHowToMakeThem) {
  const std::string there = "cd " + path("") + " && ";
  const std::string hint = "name them with --data, or make them with tfrecord_convert ";
  expect_one_line(run("mnist_train --device cpu", there), ExitCode::no_input,
                  "data/mnist/train-*: no file matches: " + hint + "mnist --download --output data/mnist");
  expect_one_line(run("cifar10_eval --device cpu", there), ExitCode::no_input,
                  hint + "cifar10 --download --output data/cifar10");
  expect_one_line(run("image_train --device cpu", there), ExitCode::no_input,
                  hint + "images --input FOLDER --output data/images");
  const Outcome named = run("mnist_train --device cpu --data none", there);
  EXPECT_EQ(named.code, static_cast<int>(ExitCode::no_input));
  EXPECT_THAT(named.output, testing::Not(testing::HasSubstr("tfrecord_convert")));
}

TEST_F(Startup, PrintsItsVersionAndSources) {
  for (const char* program : {"mnist_train", "cifar10_eval", "image_train", "carillon_predict"}) {
    const Outcome outcome = run(std::string(program) + " --version");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, testing::MatchesRegex(std::string(program) +
                                                      " .Carillon. [0-9.]+(, commit [^\n]+)?\nOpen MPI [^\n]*oneDNN "
                                                      "[0-9.]+[^\n]*HDF5 [0-9.]+[^\n]*\n"));
  }
  for (const char* program : {"tfrecord_convert", "tfrecord_inspect", "checkpoint_tool"}) {
    const Outcome outcome = run(std::string(program) + " --version");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, testing::StartsWith(std::string(program) + " (Carillon) "));
  }
}

/// Without the error that this test expects, each process would train alone on the same files.
TEST_F(Startup, RefusesToBeOneOfManyThatMpiDoesNotSee) {
  for (const char* variable : {"PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    expect_one_line(run("mnist_train --device cpu", std::string(variable) + "=4 "), ExitCode::usage,
                    std::string("4 processes were started (") + variable + "), but MPI sees only this one");
    EXPECT_EQ(run("mnist_train --help", std::string(variable) + "=1 ").code, 0);
  }
  // The variables are as if 4 commands `mpirun -np 1` had started the processes.
  EXPECT_EQ(run("mnist_train --help", "PMI_SIZE=4 OMPI_COMM_WORLD_SIZE=1 ").code, 0);
  EXPECT_EQ(run("mnist_train --help", "SLURM_STEP_NUM_TASKS=3 SLURM_PTY_PORT=7 ").code, 0);
  expect_one_line(run("mnist_train --device cpu", "SLURM_STEP_NUM_TASKS=3 "), ExitCode::usage,
                  "Slurm started 3 tasks, but MPI sees only this one: use srun --mpi=pmix");
}

/// Tests which precision a checkpoint stores after a training with given options.
class Precision : public ProgramFixture {
 protected:
  Outcome train(const std::string& options) const {
    return run("cifar10_train --data synthetic --device cpu --batch-size 2 --max-steps 1 --fresh --train-dir " +
               path("run") + " " + options);
  }
  std::string stored() const { return run("checkpoint_tool inspect " + path("run")).output; }
};

TEST_F(Precision, OfAutoIsFloat32WithoutTilesAndIsStored) {
  const Outcome outcome = train("--precision auto --isa plain");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(stored(), HasSubstr("    precision = fp32\n"));
}

TEST_F(Precision, Bf16WithoutTilesWarnsAndIsStored) {
  const Outcome outcome = train("--precision bf16 --isa plain");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1 of 1 ranks use neither AMX nor AVX512-BF16"));
  EXPECT_THAT(outcome.output, HasSubstr(", precision bf16"));
  EXPECT_THAT(stored(), HasSubstr("    precision = bf16\n"));
  EXPECT_THAT(stored(), HasSubstr("    winograd convolutions = []\n"));
}

class MpiMain : public ProgramFixture {
 protected:
  /// Runs tests/cli/own_failure.cpp with two ranks.
  static Outcome own_failure(const std::string& how) {
    return run("own_failure " + how, "mpirun --allow-run-as-root --oversubscribe -np 2 ");
  }
};

TEST_F(MpiMain, EndsRanksThatWaitForOneWithAnErrorOfItsOwn) {
  const Outcome outcome = own_failure("alone");
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr("own_failure: rank 1 on "));
  EXPECT_THAT(outcome.output, HasSubstr(": a record is damaged\n"));
}

TEST_F(MpiMain, LetsRanksThatKnowOfAnErrorLeaveByThemselves) {
  const Outcome outcome = own_failure("together");
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr(": a record is damaged\n"));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("MPI_ABORT")));
}

}  // namespace
}  // namespace carillon
