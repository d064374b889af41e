// Compares trainings of the multi-label task with float64 numpy.
#include "src/tasks/multilabel.h"

#include "tests/tasks/task_training.h"

namespace carillon::testing {
namespace {

TEST(MultilabelTask, TrainsAsInFloat64WithAndWithoutMicroBatches) {
  std::vector<std::uint8_t> targets;
  for (int i = 0; i < TaskTraining::record_count; ++i) {
    for (int j = 0; j < 4; ++j) targets.push_back((5 * i + 3 * j + i * j) % 3 == 0 ? 1 : 0);
  }
  TaskTraining training(multilabel_task(4), std::as_bytes(std::span(targets)));
  for (const std::int64_t micro_batch : {0, 1, 2}) {
    SCOPED_TRACE(micro_batch);
    expect_results(training.train(micro_batch), "multilabel_task.txt");
  }
}

}  // namespace
}  // namespace carillon::testing
