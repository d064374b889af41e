// What a program refuses of its device before it reads anything.
#include "src/app/startup.h"

#include "carillon/core/error.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

/// The message with which `asked` is refused on a processor that has `available`; empty where it is not.
std::string refusal(std::optional<Isa> asked, const std::vector<Isa>& available) {
  try {
    check_isa(asked, available);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return {};
}

TEST(CheckIsa, RefusesWhatTheProcessorLacksAndNamesWhatItHas) {
  EXPECT_EQ(refusal(Isa::avx512, {Isa::plain, Isa::avx2}), "--isa avx512: this processor has avx2 at most");
  EXPECT_EQ(refusal(Isa::avx2, {Isa::plain}), "--isa avx2: this processor has plain at most");
}

TEST(CheckIsa, TakesEachOneThatTheProcessorHas) {
  const std::vector<Isa> all{Isa::plain, Isa::avx2, Isa::avx512};
  for (const Isa isa : all) EXPECT_EQ(refusal(isa, all), "");
  EXPECT_EQ(refusal(std::nullopt, {Isa::plain}), "");
}

class Startup : public ProgramFixture {};

TEST_F(Startup, RefusesAnInstructionSetThatThereIsNot) {
  expect_failure("mnist_train --device cpu --isa avx1024", ExitCode::usage,
                 "--isa: 'avx1024' is not one of auto, plain, avx2, avx512");
}

TEST_F(Startup, RefusesAGroupOfNoVariableBeforeItReadsAnything) {
  expect_failure("mnist_train --group 'bias*: rate=2'", ExitCode::usage,
                 "--group: 'bias*' matches no variable; there are: layer1/weights, layer1/biases, layer2/weights");
}

TEST_F(Startup, RefusesPrecisionsOfGpusOnACpuWithTheReason) {
  expect_failure(
      "mnist_train --device cpu --precision bf16", ExitCode::no_device,
      "--precision bf16 is for GPUs, and the device is CPU:0: a CPU convolves faster in fp32, by Winograd's");
  expect_failure("mnist_train --device cpu --precision tf32", ExitCode::no_device,
                 "--precision tf32 is for GPUs, and the device is CPU:0: a CPU has no such products");
}

}  // namespace
}  // namespace carillon
