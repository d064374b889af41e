// Compares trainings of classification tasks with float64 numpy. Some trainings use class weights or focal loss.
#include "src/tasks/classification.h"

#include "tests/tasks/task_training.h"

namespace carillon::testing {
namespace {

/// Returns the labels: each record has class 0, 1 or 2; class 2 is rare.
std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < TaskTraining::record_count; ++i) labels.push_back(i % 8 == 3 ? 2 : i * 5 % 7 % 2);
  return labels;
}

void expect_trains_as(const ClassificationSettings& settings, const std::string& file) {
  const std::vector<std::int32_t> classes = labels();
  const auto targets = std::as_bytes(std::span(classes));
  Task task = classification_task(settings);
  if (task.loss_of_records) task.loss = task.loss_of_records(targets);
  TaskTraining training(task, targets);
  for (const std::int64_t micro_batch : {0, 1, 2}) {
    SCOPED_TRACE(micro_batch);
    TaskResults found = training.train(micro_batch);
    // Compares only the losses and the variables; the other scores have their own tests.
    for (const char* const name : {"cross_entropy", "balanced_accuracy", "macro_f1", "calibration_error"})
      found.erase(name);
    expect_results(found, file);
  }
}

TEST(Classification, WithBalancedWeightsTrainsAsInFloat64) {
  expect_trains_as({.classes = 3, .balances_weights = true}, "balanced_classification.txt");
}

TEST(Classification, WithGivenWeightsSmoothingAndFocalLossTrainsAsInFloat64) {
  expect_trains_as({.classes = 3, .label_smoothing = 0.125f, .focal_gamma = 1.5f, .class_weights = {1.0, 0.5, 4.0}},
                   "focal_classification.txt");
}

}  // namespace
}  // namespace carillon::testing
