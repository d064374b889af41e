#include "src/report/task_outputs.h"

#include <gmock/gmock.h>

#include <array>

#include "src/tasks/classification.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/regression.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> names{"ant", "bee"};

/// The outputs that an evaluation of the given samples collects.
struct Evaluated {
  std::unique_ptr<Metric> metric;
  std::unique_ptr<TaskOutputs> outputs;

  Evaluated(TargetKind target, const Task& task, std::span<const float> network_outputs,
            std::span<const std::byte> targets)
      : metric(metric_for_outputs(target, task, {.has_confusion_matrix = true, .has_predictions = true})()) {
    metric->add(network_outputs, targets);
    outputs = task_outputs(target, *metric, names);
  }
};

std::vector<std::size_t> first_list(const Evaluated& evaluated, std::size_t count) {
  return evaluated.outputs->lists(count).front().records;
}

TEST(TaskOutputs, OfClassesBeginWithTheMostCertainMistakes) {
  const std::array<float, 8> logits{3.0f, 0.0f, 1.0f, 0.0f, 2.0f, 0.0f, 0.0f, 5.0f};
  const std::array<std::int32_t, 4> labels{0, 1, 1, 1};
  const Evaluated evaluated(TargetKind::class_index, classification_task({.classes = 2}), logits,
                            std::as_bytes(std::span(labels)));
  EXPECT_THAT(first_list(evaluated, 10), ElementsAre(2, 1));
  EXPECT_THAT(evaluated.outputs->lists(2)[1].records, ElementsAre(1, 2)) << "the least certain";
  const ShownPrediction shown = evaluated.outputs->shown(2);
  EXPECT_EQ(shown.truth, "bee");
  EXPECT_EQ(shown.predicted, "ant");
  EXPECT_EQ(shown.rating, "88.08 %");
  EXPECT_EQ(shown.is_right, false);
  EXPECT_EQ(evaluated.outputs->shown(3).is_right, true);
  EXPECT_THAT(evaluated.outputs->table().cells(2), ElementsAre("bee", "ant", "ant", "0.880797", "bee", "0.119203"));
}

TEST(TaskOutputs, OfLabelsBeginWithTheLargestLosses) {
  const std::array<float, 6> logits{5.0f, -5.0f, -1.0f, 4.0f, 3.0f, 3.0f};
  const std::array<std::byte, 6> targets{std::byte{1}, {}, {}, {}, std::byte{1}, {}};
  const Evaluated evaluated(TargetKind::labels, multilabel_task(2), logits, targets);
  EXPECT_THAT(first_list(evaluated, 2), ElementsAre(1, 2));
  const ShownPrediction wrong = evaluated.outputs->shown(2), right = evaluated.outputs->shown(0);
  EXPECT_EQ(wrong.truth, "ant");
  EXPECT_EQ(wrong.predicted, "ant, bee");
  EXPECT_EQ(wrong.rating, "loss 1.549");
  EXPECT_EQ(wrong.is_right, false);
  EXPECT_EQ(evaluated.outputs->shown(1).truth, "no label");
  EXPECT_EQ(right.is_right, true);
  EXPECT_THAT(evaluated.outputs->table().cells(1), ElementsAre("", "bee", "0.268941", "0.982014"));
}

TEST(TaskOutputs, OfNumbersBeginWithTheLargestErrors) {
  const std::array<float, 6> predicted{1.0f, 0.0f, 2.0f, 0.0f, -1.0f, 3.0f},
      numbers{1.0f, 0.0f, 1.0f, 0.0f, -1.0f, 0.0f};
  const Task task = regression_task({.numbers = {{.mean = 1.7e9, .deviation = 1e5}, {}}});
  const Evaluated evaluated(TargetKind::numbers, task, predicted, std::as_bytes(std::span(numbers)));
  EXPECT_THAT(first_list(evaluated, 2), ElementsAre(2, 1));
  const ShownPrediction shown = evaluated.outputs->shown(1);
  EXPECT_EQ(shown.truth, "1700100000, 0.00");
  EXPECT_EQ(shown.predicted, "1700200000, 0.00");
  EXPECT_FALSE(shown.is_right.has_value());
  EXPECT_THAT(evaluated.outputs->table().cells(1), ElementsAre("1700100000", "1700200000", "0", "0"));
}

TEST(TaskOutputs, APrintedScoreDoesNotDependOnTheOutputs) {
  const Task task = classification_task({.classes = 2});
  const std::array<float, 4> logits{3.0f, 0.0f, 1.0f, 0.0f};
  const std::array<std::int32_t, 2> labels{0, 1};
  const std::unique_ptr<Metric> plain = task.make_metric();
  plain->add(logits, std::as_bytes(std::span(labels)));
  for (const bool has_matrix : {false, true}) {
    for (const bool has_predictions : {false, true}) {
      const std::unique_ptr<Metric> metric =
          metric_for_outputs(TargetKind::class_index, task, {has_matrix, has_predictions})();
      metric->add(logits, std::as_bytes(std::span(labels)));
      EXPECT_EQ(metric->text(), plain->text());
      EXPECT_EQ(metric->other_texts(), plain->other_texts());
    }
  }
}

}  // namespace
}  // namespace carillon
