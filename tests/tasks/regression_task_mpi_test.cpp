// Compares trainings of regressions with float64 numpy.
#include "src/tasks/regression.h"

#include "tests/tasks/task_training.h"

namespace carillon::testing {
namespace {

void expect_results_of(const RegressionSettings& settings, const std::string& file) {
  std::vector<float> targets;
  for (int i = 0; i < TaskTraining::record_count; ++i) {
    for (int j = 0; j < 3; ++j) targets.push_back(static_cast<float>((11 * i + 29 * j) % 64) / 32.0f - 1.0f);
  }
  TaskTraining training(carillon::regression_task(settings), std::as_bytes(std::span(targets)));
  for (const std::int64_t micro_batch : {0, 1, 2}) {
    SCOPED_TRACE(micro_batch);
    expect_results(training.train(micro_batch), file);
  }
}

TEST(RegressionTask, ASquaredErrorTrainsAsInFloat64WithAndWithoutMicroBatches) {
  expect_results_of({.numbers = std::vector<NumberScale>(3)}, "regression_squared.txt");
}

TEST(RegressionTask, AnAbsoluteErrorTrainsAsInFloat64WithAndWithoutMicroBatches) {
  expect_results_of({.numbers = std::vector<NumberScale>(3), .loss = MeanLossKind::absolute_error},
                    "regression_absolute.txt");
}

TEST(RegressionTask, AHuberLossTrainsAsInFloat64WithAndWithoutMicroBatches) {
  expect_results_of({.numbers = std::vector<NumberScale>(3), .loss = MeanLossKind::huber, .huber_delta = 0.5f},
                    "regression_huber.txt");
}

}  // namespace
}  // namespace carillon::testing
