// Tests of evaluations on the fake GPU. They evaluate during a training, or evaluate a checkpoint.
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

class EvaluationOnGpu : public ProgramFixture {
 protected:
  /// Returns the part of `output` from the last occurrence of `begin` to the end of that line.
  static std::string last_line(const std::string& output, const std::string& begin) {
    const std::size_t at = output.rfind(begin);
    return at == std::string::npos ? "no " + begin + " in " + output : output.substr(at, output.find('\n', at) - at);
  }
  Outcome train(const std::string& options) const {
    return run("fake_cuda/mnist_train --data synthetic --eval-data synthetic --batch-size 20 --max-steps 4 " + options);
  }
};

TEST_F(EvaluationOnGpu, ATrainingAndTheEvaluationsOfItsCheckpointAgree) {
  const Outcome trained = train("--eval-every 2 --device cuda --train-dir " + path("run"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const std::string loss = last_line(trained.output, "cross-entropy = ");
  const std::string accuracy = last_line(trained.output, "precision @ 1 = ");
  EXPECT_THAT(accuracy, testing::HasSubstr("/10000)"));
  EXPECT_EQ(trained.output.find(loss), trained.output.rfind(loss)) << "the second evaluation repeats the first";
  const std::string evaluate = "fake_cuda/mnist_eval --data synthetic --checkpoint " + path("run");
  const Outcome on_gpu = run(evaluate + " --device cuda"), on_cpu = run(evaluate + " --device cpu");
  EXPECT_THAT(on_gpu.output, testing::HasSubstr(loss));
  for (const Outcome& evaluated : {on_gpu, on_cpu}) {
    EXPECT_EQ(evaluated.code, 0) << evaluated.output;
    EXPECT_THAT(evaluated.output, testing::HasSubstr(accuracy));
  }
}

}  // namespace
}  // namespace carillon
