// Expects that a tower on a GPU has the same results as a tower on a CPU, except for rounding, and that the bits of its
// results do not depend on the order in which the GPU runs independent work.
#include "src/step/tower.h"

#include <algorithm>
#include <cmath>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"

namespace carillon::testing {
namespace {

/// The number of steps is larger than the ring of the step table, so that later steps use entries again.
constexpr int many_steps = 150;

class TowerOnAGpu : public GpuTest {
 protected:
  static const NoiseRecords& records() {
    static const NoiseRecords instance(97, 784);
    return instance;
  }
  static Trained on_cpu(const Training& training) {
    CpuDevice device(1);
    const auto communicator = make_self_communicator(device);
    return train(training, records(), device, *communicator);
  }
  static Trained on_gpu(const Training& training, const GpuConditions& settings = {}) {
    set_conditions(settings);
    CudaDevice device(0);
    const auto communicator = make_self_communicator(device);
    return train(training, records(), device, *communicator);
  }
  /// Expects that the variables and averages differ by at most `tolerance`, relative to the change of the variables in
  /// the training. The losses may differ by `tolerance`, relative to their values.
  static void expect_near(const Training& training, const Trained& cpu, const Trained& gpu, double tolerance) {
    Training nothing = training;
    nothing.steps = 0;
    const std::vector<float> start = on_cpu(nothing).values;
    const double way = distance(cpu.values, start);
    EXPECT_GT(way, 0.0);
    EXPECT_LT(distance(cpu.values, gpu.values), tolerance * way);
    EXPECT_LT(distance(cpu.averages, gpu.averages), tolerance * way);
    EXPECT_LE(distance(cpu.buffers, gpu.buffers), tolerance * distance(cpu.buffers, on_cpu(nothing).buffers));
    ASSERT_EQ(cpu.results.size(), gpu.results.size());
    for (std::size_t i = 0; i < cpu.results.size(); ++i) {
      EXPECT_EQ(gpu.results[i].step, static_cast<int>(i));
      EXPECT_NEAR(cpu.results[i].loss, gpu.results[i].loss, tolerance * std::abs(cpu.results[i].loss));
    }
  }
};

TEST_F(TowerOnAGpu, TrainsAsOnTheCpu) {
  const Training training{.steps = many_steps};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-4);
}

/// For such a large batch, the loss kernel runs in several blocks, so it does not sum the last layer's bias gradient.
TEST_F(TowerOnAGpu, TrainsLargeBatchesAsOnTheCpu) {
  const Training training{.batch_size = 600, .steps = 5};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-4);
}

TEST_F(TowerOnAGpu, TrainsMnistAsOnTheCpu) {
  const Training training{
      .network = mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})), .steps = 60};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
}

TEST_F(TowerOnAGpu, TrainsLenetAsOnTheCpu) {
  const Training training{
      .network = lenet_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})),
      .batch_size = 4,
      .steps = 5};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
}

TEST_F(TowerOnAGpu, TrainsABranchingNetworkAsOnTheCpu) {
  const Training training{.network = branching_network(), .steps = 60};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
}

TEST_F(TowerOnAGpu, TrainsANormalisedNetworkAsOnTheCpu) {
  Training training{.network = normalized_network(), .steps = 12, .learning_rate = 0.02f, .rule = "nesterov"};
  const Trained captured = on_gpu(training);
  expect_near(training, on_cpu(training), captured, 1e-3);
  training.capture = false;
  expect_equal(on_gpu(training), captured);
}

TEST_F(TowerOnAGpu, LooksAheadAsOnTheCpu) {
  Training training{.network = normalized_network(), .steps = 13, .learning_rate = 0.02f, .rule = "nesterov"};
  training.groups = {{.pattern = "stem/*", .frozen_after = 4}};
  training.lookahead = {.every = 3, .decay = 0.8, .power = 1.0, .steps = 13};
  const Trained captured = on_gpu(training);
  expect_near(training, on_cpu(training), captured, 1e-3);
  training.capture = false;
  expect_equal(on_gpu(training), captured);
}

TEST_F(TowerOnAGpu, TrainsByMuonAsOnTheCpu) {
  for (const bool normalizes : {false, true}) {
    Training training{.network = normalized_network(), .steps = 8, .learning_rate = 0.01f, .weight_decay = 0.1};
    training.rule = normalizes ? "muon-nesterov" : "muon";
    training.muon_normalizes = normalizes;
    training.groups = {{.pattern = "branch/weights", .frozen_until = 2}, {.pattern = "stem/weights", .muon = true}};
    const Trained captured = on_gpu(training);
    expect_near(training, on_cpu(training), captured, 1e-3);
    training.capture = false;
    expect_equal(on_gpu(training), captured);
  }
}

TEST_F(TowerOnAGpu, TrainsByMuonAlikeWithOtherArithmetic) {
  Training training{.network = normalized_network(), .steps = 8, .learning_rate = 0.01f, .rule = "muon"};
  const Trained cpu = on_cpu(training);
  for (const auto& [arithmetic, tolerance] : {std::pair{Arithmetic::tf32, 2e-2}, {Arithmetic::bf16, 1e-1}}) {
    training.arithmetic = arithmetic;
    training.capture = true;
    const Trained captured = on_gpu(training);
    expect_near(training, cpu, captured, tolerance);
    const std::string stacking = arithmetic == Arithmetic::bf16 ? "StackScaled<Bf16>" : "StackScaled<float>";
    EXPECT_EQ(std::ranges::count(captured.captured_nodes, stacking), 1);
    training.capture = false;
    expect_equal(on_gpu(training), captured);
  }
}

TEST_F(TowerOnAGpu, TrainsWithMomentumAsOnTheCpu) {
  const Training training{.steps = 60, .learning_rate = 0.01f, .rule = "momentum"};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
}

TEST_F(TowerOnAGpu, TrainsByNormsAsOnTheCpu) {
  for (const std::string_view rule : {"lars", "lamb"}) {
    const Training training{.network = mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f})),
                            .steps = 20,
                            .learning_rate = rule == "lars" ? 5.0f : 0.003f,
                            .rule = std::string(rule),
                            .weight_decay = 0.01,
                            .groups = {{.pattern = "layer2/*", .rate = 0.5, .frozen_until = 3}}};
    expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
  }
}

TEST_F(TowerOnAGpu, TrainsWithAdamWAndGroupsAsOnTheCpu) {
  const Training training{.steps = 60,
                          .learning_rate = 0.003f,
                          .rule = "adamw",
                          .weight_decay = 0.1,
                          .groups = {{.pattern = "*/biases", .rate = 4.0, .decay = 0.0, .frozen_after = 40},
                                     {.pattern = "layer1/*", .frozen_until = 5}}};
  expect_near(training, on_cpu(training), on_gpu(training), 1e-3);
}

TEST_F(TowerOnAGpu, ClipsGradientsAsOnTheCpu) {
  for (const std::string_view rule : {"sgd", "adamw", "lars", "muon"}) {
    Training training{.network = normalized_network(), .steps = 12, .learning_rate = 0.02f, .rule = std::string(rule)};
    if (rule == "lars") training.learning_rate = 5.0f;
    training.clip_norm = 0.1;
    training.groups = {{.pattern = "stem/weights", .frozen_after = 7}};
    training.observe_every = 5;
    const Trained cpu = on_cpu(training), captured = on_gpu(training);
    expect_near(training, cpu, captured, 1e-3);
    for (std::size_t i = 0; i < cpu.results.size(); ++i) {
      const double norm = cpu.results[i].gradient_norm.value();
      EXPECT_GT(norm, training.clip_norm) << "nothing is clipped";
      EXPECT_NEAR(captured.results[i].gradient_norm.value(), norm, 1e-3 * norm) << rule << ", step " << i;
    }
    training.capture = false;
    expect_equal(on_gpu(training), captured);
    training.clip_norm = 0.0;
    const Trained without = on_gpu(training);
    EXPECT_FALSE(without.results[0].gradient_norm);
    EXPECT_FALSE(equal_bits(without.values, captured.values));
  }
}

TEST_F(TowerOnAGpu, ANormIsNotReportedForAStepThatIsNotUpdated) {
  const Trained gpu = on_gpu({.steps = 3, .clip_norm = 1e30, .explode_at = 0});
  EXPECT_TRUE(gpu.results.at(0).gradient_norm);
  EXPECT_FALSE(gpu.results.at(2).gradient_norm);
}

TEST_F(TowerOnAGpu, TrainsFrozenBatchNormsAsOnTheCpu) {
  Training training{.network = normalized_network(), .steps = 12, .learning_rate = 0.02f, .rule = "nesterov"};
  training.network.freeze_batch_norm = true;
  const Trained cpu = on_cpu(training), captured = on_gpu(training);
  expect_near(training, cpu, captured, 1e-3);
  Training nothing = training;
  nothing.steps = 0;
  EXPECT_TRUE(equal_bits(captured.buffers, on_gpu(nothing).buffers));
  training.capture = false;
  expect_equal(on_gpu(training), captured);
}

TEST_F(TowerOnAGpu, TrainsAlikeWithOtherArithmetic) {
  const Training training{.steps = 60};
  const Trained cpu = on_cpu(training);
  expect_near(training, cpu, on_gpu({.steps = 60, .arithmetic = Arithmetic::tf32}), 2e-2);
  expect_near(training, cpu, on_gpu({.steps = 60, .arithmetic = Arithmetic::bf16}), 1e-1);
}

TEST_F(TowerOnAGpu, CapturedStepsEqualEagerOnes) {
  const auto before = graph_launches();
  const Trained eager = on_gpu({.steps = many_steps, .capture = false});
  EXPECT_EQ(graph_launches(), before);
  const Trained captured = on_gpu({.steps = many_steps});
  if (before) {
    EXPECT_GT(graph_launches(), before);
  }
  expect_equal(eager, captured);
}

TEST_F(TowerOnAGpu, TheOrderOfWorkChangesNothing) {
  const Training training{.steps = many_steps};
  const Trained first = on_gpu(training);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    expect_equal(first, on_gpu(training, {.seed = seed, .eagerness = static_cast<double>(seed % 3) / 2.0}));
  }
}

TEST_F(TowerOnAGpu, ResidentRecordsEqualStagedOnes) {
  Training training{.steps = many_steps};
  const Trained staged = on_gpu(training);
  training.resident = &records().dataset();
  const Trained resident = on_gpu(training);
  EXPECT_FALSE(staged.keeps_records);
  EXPECT_TRUE(resident.keeps_records);
  expect_equal(staged, resident);
}

TEST_F(TowerOnAGpu, RecordsAreStagedIfTheWorkspaceLeavesNoRoomForThem) {
  const NoiseRecords many(5000, 784);
  const Training training{.steps = 20, .resident = &many.dataset()};
  std::vector<Trained> trained;
  for (const std::size_t left : {std::size_t{64} << 20, std::size_t{6} << 20}) {
    set_conditions({.device_bytes = (std::size_t{256} << 20) + left});
    CudaDevice device(0);
    const auto communicator = make_self_communicator(device);
    trained.push_back(train(training, many, device, *communicator));
  }
  EXPECT_TRUE(trained[0].keeps_records);
  if (graph_launches()) {
    EXPECT_FALSE(trained[1].keeps_records);
  }
  expect_equal(trained[0], trained[1]);
}

TEST_F(TowerOnAGpu, WhenResultsAreTakenChangesNothing) {
  const Trained often = on_gpu({.steps = many_steps});
  for (const int every : {7, 40, 1000}) {
    SCOPED_TRACE(every);
    expect_equal(often, on_gpu({.steps = many_steps, .results_every = every}, {.seed = 2}));
  }
}

TEST_F(TowerOnAGpu, AStepReportsTheL2LossOfTheVariablesBeforeIt) {
  Training training{.steps = many_steps, .l2_every = 7};
  const Trained cpu = on_cpu(training), gpu = on_gpu(training);
  for (int step = 0; step < many_steps; ++step) {
    const double expected = cpu.results.at(step).l2_loss;
    EXPECT_EQ(expected > 0.0, step % 7 == 0);
    EXPECT_NEAR(gpu.results.at(step).l2_loss, expected, 1e-5 * expected) << "step " << step;
  }
  training.capture = false;
  expect_equal(gpu, on_gpu(training));
  training.l2_every = 0;
  const Trained without = on_gpu(training);
  EXPECT_TRUE(equal_bits(gpu.values, without.values));
}

TEST_F(TowerOnAGpu, ANonFiniteLossIsReportedForItsStepAndChangesNothing) {
  for (const int explode_at : {0, 37}) {
    Training training{.steps = 60, .explode_at = explode_at};
    const Trained gpu = on_gpu(training);
    for (int step = 0; step < 60; ++step) {
      EXPECT_EQ(std::isfinite(gpu.results.at(step).loss), step <= explode_at) << step;
    }
    training.steps = explode_at + 1;
    const Trained until_then = on_gpu(training);
    EXPECT_TRUE(equal_bits(gpu.values, until_then.values));
    EXPECT_TRUE(equal_bits(gpu.averages, until_then.averages));
  }
}

TEST_F(TowerOnAGpu, ARequestForAPauseIsToldOfTheStepThatAsksForIt) {
  const Trained trained = on_gpu({.steps = 60, .sync_at = 41});
  for (int step = 0; step < 60; ++step) EXPECT_EQ(trained.results.at(step).sync_requested, step == 41) << step;
}

TEST_F(TowerOnAGpu, ObserversSeeTheGradientsBeforeTheUpdate) {
  Training training{.steps = 60, .observe_every = 13};
  const Trained cpu = on_cpu(training), gpu = on_gpu(training);
  ASSERT_EQ(cpu.observed.size(), gpu.observed.size());
  for (std::size_t i = 0; i < cpu.observed.size(); ++i) {
    const std::vector<float> zeros(cpu.observed[i].size());
    EXPECT_LT(distance(cpu.observed[i], gpu.observed[i]), 1e-4 * distance(cpu.observed[i], zeros));
  }
  training.observe_every = 0;
  expect_equal(gpu, on_gpu(training));
}

TEST_F(TowerOnAGpu, ResumesWithEqualBits) {
  Training training{.steps = 14, .rule = "momentum"};
  const Trained whole = on_gpu(training);
  training.restored_at = 9;
  expect_equal(whole, on_gpu(training));
}

TEST_F(TowerOnAGpu, UpdatesEquallyWithoutMovingAverages) {
  Training training{.steps = 6};
  const Trained with = on_gpu(training);
  training.averages = false;
  EXPECT_TRUE(equal_bits(with.values, on_gpu(training).values));
}

/// Trains CIFAR-10's network, with distorted images.
TEST_F(TowerOnAGpu, TrainsCifar10AsOnTheCpu) {
  const NoiseRecords images(31, 3072);
  Training training{.network = cifar10_network(cifar10_images({.regularization = 1e-4f, .distort = true, .seed = 5})),
                    .batch_size = 2,
                    .steps = 4,
                    .resident = &images.dataset()};
  CpuDevice cpu(1);
  const auto cpu_communicator = make_self_communicator(cpu);
  const Trained expected = train(training, images, cpu, *cpu_communicator);
  Training nothing = training;
  nothing.steps = 0;
  const Trained start = train(nothing, images, cpu, *cpu_communicator);
  // In bf16, images have 8 channels. If a filter read a wrong channel, the error would be much larger than the
  // tolerance.
  for (const auto& [arithmetic, tolerance] : {std::pair{Arithmetic::fp32, 1e-3}, {Arithmetic::bf16, 0.2}}) {
    training.arithmetic = arithmetic;
    CudaDevice gpu(0);
    const auto gpu_communicator = make_self_communicator(gpu);
    const Trained got = train(training, images, gpu, *gpu_communicator);
    EXPECT_LT(distance(expected.values, got.values), tolerance * distance(expected.values, start.values));
    EXPECT_LT(distance(expected.averages, got.averages), tolerance * distance(expected.values, start.values));
    for (std::size_t i = 0; i < expected.results.size(); ++i) {
      EXPECT_NEAR(expected.results[i].loss, got.results.at(i).loss, tolerance / 10.0);
    }
  }
}

}  // namespace
}  // namespace carillon::testing
