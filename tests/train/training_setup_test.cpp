#include "src/train/loop/training_setup.h"

#include <gtest/gtest.h>

#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

TrainOptions options() {
  TrainOptions options;
  options.data.evaluation_batch = 48;
  options.data.prefetch_bytes = 11;
  options.optimizer.schedule.decay_steps = 600;
  return options;
}

/// Returns a network for images of `extent` x `extent` pixels with one layer.
Network network_for(std::int64_t extent) {
  return make_network("one layer", {.image = {extent, extent, 3}}, [&](Graph& graph) {
    return dense(graph, "logits", image_input(graph, "input", {.sample = {extent, extent, 3}}), {.units = 2});
  });
}

std::int64_t batch(const Network& network, DeviceKind device) {
  return evaluator_settings(options(), network, device, {}, 1).batch_size;
}

TEST(TrainingSetup, EvaluationsOfSmallImagesTakeLargerBatchesOnAGpu) {
  for (const auto& [extent, on_gpu] : {std::pair{28, 1000}, {32, 1000}, {64, 250}, {224, 48}}) {
    EXPECT_EQ(batch(network_for(extent), DeviceKind::cuda), on_gpu) << extent;
    EXPECT_EQ(batch(network_for(extent), DeviceKind::cpu), 48) << extent;
  }
}

/// With another value, the first evaluation would end the training.
TEST(TrainingSetup, NoTensorOfAnEvaluationExceedsTheIndexLimitOfAGpu) {
  for (const auto& [units, on_gpu] : {std::pair{std::int64_t{1} << 30, 1}, {1 << 28, 7}, {1 << 20, 1000}}) {
    const Network wide = make_network("wide", {.image = {1, 1, 1}}, [units = units](Graph& graph) {
      return dense(graph, "logits", image_input(graph, "input", {.sample = {1, 1, 1}}), {.units = units});
    });
    EXPECT_EQ(largest_evaluated_tensor(wide, Arithmetic::fp32), units);
    EXPECT_EQ(batch(wide, DeviceKind::cuda), on_gpu) << units;
    EXPECT_EQ(batch(wide, DeviceKind::cpu), 48) << units;
  }
}

TEST(TrainingSetup, AnEvaluationOfAnImageThatAGpuCannotIndexIsRefused) {
  const auto check = [](std::int64_t extent) {
    const Network network = resnet18_cifar_network({.image = {extent, extent, 3}, .outputs = 2});
    check_gpu_can_index(network, Arithmetic::fp32, "--eval-image-size");
  };
  EXPECT_NO_THROW(check(4096));
  try {
    check(8192);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find("--eval-image-size on a GPU: a tensor has 4294967296 elements"), 0u)
        << error.what();
  }
}

TEST(TrainingSetup, EvaluationsHaveTheOptionsOfTheTraining) {
  for (const bool on : {false, true}) {
    TrainOptions chosen = options();
    chosen.device.cuda_graph = on;
    chosen.device.arithmetic = on ? Arithmetic::bf16 : Arithmetic::fp32;
    chosen.data.test_time_augmentation = on;
    const EvaluatorSettings settings = evaluator_settings(chosen, network_for(28), DeviceKind::cuda, {}, 3);
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
  const EvaluatedPart repeated = evaluator_settings(options(), network_for(28), DeviceKind::cuda, part, 1).repeated;
  EXPECT_EQ(repeated.records.begin, 3u);
  EXPECT_EQ(repeated.records.end, 9u);
}

}  // namespace
}  // namespace carillon::testing
