#include "tests/tasks/regression_task.h"

#include "tests/tasks/task_training.h"

namespace carillon::testing {
namespace {

TEST(RegressionTask, TrainsAsInFloat64WithAndWithoutMicroBatches) {
  std::vector<float> targets;
  for (int i = 0; i < TaskTraining::record_count; ++i) {
    for (int j = 0; j < 3; ++j) targets.push_back(static_cast<float>((11 * i + 29 * j) % 64) / 32.0f - 1.0f);
  }
  TaskTraining training(regression_task(3), std::as_bytes(std::span(targets)));
  for (const std::int64_t micro_batch : {0, 1, 2}) {
    SCOPED_TRACE(micro_batch);
    expect_results(training.train(micro_batch), "regression_task.txt");
  }
}

}  // namespace
}  // namespace carillon::testing
