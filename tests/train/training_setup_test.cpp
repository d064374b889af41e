#include "src/train/loop/training_setup.h"

#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

TrainOptions options() {
  TrainOptions options;
  options.data.evaluation_batch = 48;
  options.data.prefetch_bytes = 11;
  options.optimizer.schedule.decay_steps = 600;
  return options;
}

TEST(TrainingSetup, EvaluationsOfSmallImagesTakeLargerBatchesOnAGpu) {
  for (const auto& [extent, on_gpu] : {std::pair{28, 1000}, {32, 1000}, {64, 250}, {224, 48}}) {
    TrainOptions chosen = options();
    chosen.data.record_form.schema.image_shape = {extent, extent, 3};
    EXPECT_EQ(evaluator_settings(chosen, DeviceKind::cuda, {}, 1).batch_size, on_gpu) << extent;
    EXPECT_EQ(evaluator_settings(chosen, DeviceKind::cpu, {}, 1).batch_size, 48) << extent;
  }
}

/// An evaluation may use larger images than the training (RecordForm::make_decoder).
TEST(TrainingSetup, EvaluationsOfLargerImagesTakeSmallerBatchesOnAGpu) {
  TrainOptions chosen = options();
  chosen.data.record_form.schema.image_shape = {32, 32, 3};
  const RecordSchema evaluated{.image_shape = {64, 64, 3}, .class_count = 2};
  const Dataset dataset = Dataset::synthetic(planar_records(evaluated));
  EXPECT_EQ(evaluator_settings(chosen, DeviceKind::cuda, {.dataset = &dataset}, 1).batch_size, 250);
}

TEST(TrainingSetup, EvaluationsHaveTheOptionsOfTheTraining) {
  for (const bool on : {false, true}) {
    TrainOptions chosen = options();
    chosen.device.cuda_graph = on;
    chosen.device.arithmetic = on ? Arithmetic::bf16 : Arithmetic::fp32;
    chosen.data.test_time_augmentation = on;
    const EvaluatorSettings settings = evaluator_settings(chosen, DeviceKind::cuda, {}, 3);
    EXPECT_EQ(settings.capture, on);
    EXPECT_EQ(settings.arithmetic, chosen.device.arithmetic);
    EXPECT_EQ(settings.test_time_augmentation, on);
    EXPECT_EQ(settings.decode_threads, 3);
    EXPECT_EQ(settings.prefetch_bytes, 11u);
  }
}

TEST(TrainingSetup, ATowerCapturesStepsUnlessDisabled) {
  EXPECT_TRUE(tower_settings(options()).capture);
  TrainOptions chosen = options();
  chosen.device.cuda_graph = false;
  EXPECT_FALSE(tower_settings(chosen).capture);
}

TEST(TrainingSetup, EvaluationsRepeatTheRanksPart) {
  const EvaluatedPart part{.dataset = nullptr, .records = {3, 9}};
  const EvaluatedPart repeated = evaluator_settings(options(), DeviceKind::cuda, part, 1).repeated;
  EXPECT_EQ(repeated.records.begin, 3u);
  EXPECT_EQ(repeated.records.end, 9u);
}

}  // namespace
}  // namespace carillon::testing
