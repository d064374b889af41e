// Tests that programs on GPUs reject options for CPUs and an old cuDNN, and accept options for several ranks.
#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

class StartupOnGpu : public ProgramFixture {};

TEST_F(StartupOnGpu, RefusesAnInstructionSet) {
  expect_failure("fake_cuda/mnist_train --device cuda --isa plain", ExitCode::usage,
                 "--isa requires a CPU; the device is GPU:0");
}

TEST_F(StartupOnGpu, RefusesWinogradsMethod) {
  expect_failure("fake_cuda/mnist_train --device cuda --convolution winograd", ExitCode::usage,
                 "--convolution winograd requires a CPU");
}

TEST_F(StartupOnGpu, TheProgramsForCifar10AndPicturesTrain) {
  for (const std::string command :
       {"fake_cuda/cifar10_train --batch-size 2", "fake_cuda/cifar10_train --batch-size 2 --precision bf16",
        "fake_cuda/cifar10_train --batch-size 2 --precision bf16 --model airbench94",
        "fake_cuda/image_train --model vit_tiny_patch16_224 --image-size 32 --batch-size 2"}) {
    const Outcome outcome =
        run(command + " --device cuda --data synthetic --max-steps 1 --train-dir " + path("run") + " --fresh");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, testing::HasSubstr("GPU:0"));
    EXPECT_THAT(outcome.output, testing::HasSubstr("step 0, loss = "));
  }
}

TEST_F(StartupOnGpu, RefusesRoundedGradients) {
  expect_failure("fake_cuda/mnist_train --device cuda --wire bf16", ExitCode::usage,
                 "--wire bf16 requires a CPU; the device is GPU:0");
}

TEST_F(StartupOnGpu, ExchangesStatisticsBetweenGpus) {
  for (const bool shared : {false, true}) {
    const Outcome outcome = run(
        "fake_cuda/cifar10_train --model airbench94 --sync-batch-norm --batch-size 1 --device cuda --data synthetic "
        "--max-steps 1 --train-dir " +
            path("run") + " --fresh",
        std::string("CARILLON_FAKE_CUDA_DEVICES=") + (shared ? "1" : "2") +
            " mpirun --allow-run-as-root --oversubscribe -np 2 ");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output,
                testing::HasSubstr(shared ? "averaged over mpi shared memory, staged" : "averaged over nccl"));
    EXPECT_THAT(outcome.output, testing::HasSubstr("step 0, loss = "));
  }
}

TEST(CudnnVersionTest, AnOlderOneThanTheProgramsIsRefused) {
  EXPECT_NO_THROW(check_cudnn_version(CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL));
  EXPECT_NO_THROW(check_cudnn_version((CUDNN_MAJOR + 1) * 10000));
  try {
    check_cudnn_version((CUDNN_MAJOR - 1) * 10000 + 905);
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::no_device);
  }
}

}  // namespace
}  // namespace carillon
