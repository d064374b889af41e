// What a program on a GPU refuses: options of a CPU.
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

class StartupOnGpu : public ProgramFixture {};

TEST_F(StartupOnGpu, RefusesAnInstructionSet) {
  expect_failure("fake_cuda/mnist_train --device cuda --isa plain", ExitCode::usage,
                 "--isa is of a CPU; the device is GPU:0");
}

TEST_F(StartupOnGpu, RefusesWinogradsMethod) {
  expect_failure("fake_cuda/mnist_train --device cuda --convolution winograd", ExitCode::usage,
                 "--convolution winograd is of a CPU");
}

}  // namespace
}  // namespace carillon
