// Tests of evaluations on a GPU, with 1, 2 and 4 ranks that share it. The kernels are captured or launched one by one.
// The GPU keeps the records, or they are copied for each batch. In some tests, the GPU makes views of the images.
#include "src/train/evaluation/evaluator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "carillon/core/error.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "src/step/forward/forward_kernels.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

/// A metric that keeps the outputs and targets of all samples.
class SeenMetric : public Metric {
 public:
  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    outputs_.append(reinterpret_cast<const char*>(outputs.data()), outputs.size_bytes());
    targets_.append(reinterpret_cast<const char*>(targets.data()), targets.size());
  }
  std::string contents() const override { return outputs_ + targets_; }
  void merge(std::string_view contents) override {
    constexpr std::size_t output_bytes = 10 * sizeof(float), target_bytes = sizeof(std::int32_t);
    const std::size_t samples = contents.size() / (output_bytes + target_bytes);
    outputs_ += contents.substr(0, samples * output_bytes);
    targets_ += contents.substr(samples * output_bytes);
  }
  std::vector<Score> scores() const override { return {}; }
  std::string text() const override { return {}; }

  std::vector<float> outputs() const {
    std::vector<float> values(outputs_.size() / sizeof(float));
    std::memcpy(values.data(), outputs_.data(), outputs_.size());
    return values;
  }
  const std::string& targets() const { return targets_; }

 private:
  std::string outputs_, targets_;
};

/// With 1 rank, there are more batches than slots in the ring. With 2 ranks, there are more batches than one block has.
/// The last batch is incomplete.
constexpr std::size_t record_count = 67;
constexpr std::int64_t batch_size = 2;

class EvaluatorOnAGpu : public GpuTest {
 protected:
  static const Dataset& records() {
    static const NoiseRecords instance(record_count, 784);
    return instance.dataset();
  }
  static EvaluatorSettings settings(Arithmetic arithmetic = Arithmetic::fp32) {
    return {.batch_size = batch_size, .arithmetic = arithmetic};
  }
  /// Returns random variables, and buffers that depend on the seed. The values are equal on all devices and ranks.
  static LoadedCheckpoint checkpoint(const Network& network, std::uint64_t seed = 1) {
    CpuDevice device(1);
    const auto communicator = make_self_communicator(device);
    Tower tower(network, ten_classes(), {.batch_size = 1}, device, *communicator);
    tower.initialize(seed);
    tower.broadcast_from_first();
    LoadedCheckpoint loaded{.path = "seed", .state = {}};
    tower.save(loaded.state);
    for (NamedArray& array : loaded.state.buffers) {
      for (float& value : array.values) value += 0.1f * static_cast<float>(seed);
    }
    return loaded;
  }
  static SeenMetric seen(Evaluator& evaluator, const Dataset& dataset = records()) {
    const auto metric = evaluator.evaluate([] { return std::make_unique<SeenMetric>(); }, dataset, mpi_world());
    return dynamic_cast<const SeenMetric&>(*metric);
  }
  static std::vector<float> outputs(const Network& network, const EvaluatorSettings& settings, Device& device) {
    Evaluator evaluator(network, settings, device);
    evaluator.load(checkpoint(network), TrainedValues::variables);
    return seen(evaluator).outputs();
  }
  static std::vector<float> on_gpu(const Network& network, const EvaluatorSettings& settings,
                                   const GpuConditions& conditions = {}) {
    set_conditions(conditions);
    CudaDevice device(0);
    return outputs(network, settings, device);
  }
  static std::vector<std::int64_t> predictions(const std::vector<float>& outputs) {
    std::vector<std::int64_t> classes;
    for (auto row = outputs.begin(); row != outputs.end(); row += 10) {
      classes.push_back(std::max_element(row, row + 10) - row);
    }
    return classes;
  }
};

TEST_F(EvaluatorOnAGpu, PredictsAsTheCpu) {
  CpuDevice cpu(1);
  for (const Network& network : {small_network(), branching_network(), normalized_network(), attending_network()}) {
    SCOPED_TRACE(network.name);
    for (const bool views : {false, true}) {
      EvaluatorSettings chosen = settings();
      chosen.batch_size = 16;
      chosen.test_time_augmentation = views;
      const std::vector<float> expected = outputs(network, chosen, cpu), found = on_gpu(network, chosen);
      EXPECT_EQ(predictions(found), predictions(expected)) << "views: " << views;
      ASSERT_EQ(found.size(), 10 * record_count);
      const std::vector<float> zeros(found.size());
      EXPECT_LT(distance(found, expected), 1e-5 * distance(expected, zeros)) << "views: " << views;
      chosen.arithmetic = Arithmetic::bf16;
      EXPECT_LT(distance(on_gpu(network, chosen), expected), 2e-2 * distance(expected, zeros)) << "views: " << views;
    }
  }
}

TEST_F(EvaluatorOnAGpu, EachRecordCountsOnceWithItsTarget) {
  set_conditions({});
  CudaDevice device(0);
  for (const std::int64_t size : {std::int64_t{2}, std::int64_t{50}, std::int64_t{1000}}) {
    for (const bool kept : {false, true}) {
      Evaluator evaluator(small_network(),
                          {.batch_size = size, .repeated = kept ? part_of(records(), mpi_world()) : EvaluatedPart{}},
                          device);
      evaluator.load(checkpoint(small_network()), TrainedValues::variables);
      const auto targets = records().targets();
      EXPECT_EQ(seen(evaluator).targets(), std::string(reinterpret_cast<const char*>(targets.data()), targets.size()));
    }
  }
}

TEST_F(EvaluatorOnAGpu, CapturedPassesEqualLaunchedOnes) {
  for (const bool views : {false, true}) {
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
      EvaluatorSettings chosen = settings(arithmetic);
      chosen.test_time_augmentation = views;
      const auto before = graph_launches();
      const std::vector<float> captured = on_gpu(normalized_network(), chosen);
      if (before) {
        EXPECT_GT(graph_launches(), before);
      }
      chosen.capture = false;
      const auto captures = graph_launches();
      EXPECT_TRUE(equal_bits(on_gpu(normalized_network(), chosen), captured));
      EXPECT_EQ(graph_launches(), captures);
    }
  }
}

TEST_F(EvaluatorOnAGpu, TheOrderOfWorkChangesNothing) {
  EvaluatorSettings chosen = settings();
  chosen.test_time_augmentation = true;
  const std::vector<float> first = on_gpu(small_network(), chosen);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const GpuConditions conditions{.seed = 10 * seed + static_cast<std::uint64_t>(mpi_world().rank()),
                                   .eagerness = static_cast<double>(seed % 3) / 2.0};
    EXPECT_TRUE(equal_bits(on_gpu(small_network(), chosen, conditions), first)) << seed;
  }
}

TEST_F(EvaluatorOnAGpu, KeptRecordsEqualCopiedOnes) {
  for (const bool views : {false, true}) {
    EvaluatorSettings chosen = settings();
    chosen.test_time_augmentation = views;
    const std::vector<float> copied = on_gpu(small_network(), chosen);
    chosen.repeated = part_of(records(), mpi_world());
    CudaDevice device(0);
    Evaluator evaluator(small_network(), chosen, device);
    EXPECT_TRUE(evaluator.keeps_records());
    evaluator.load(checkpoint(small_network()), TrainedValues::variables);
    EXPECT_TRUE(equal_bits(seen(evaluator).outputs(), copied));
  }
}

TEST_F(EvaluatorOnAGpu, RecordsThatDoNotFitAreCopied) {
  const NoiseRecords many(1500, 784);
  EvaluatorSettings chosen = settings();
  chosen.repeated = part_of(many.dataset(), mpi_world());
  const std::size_t own = (1500 / mpi_world().size()) * 784, workspace = std::size_t{256} << 20;
  std::vector<float> expected;
  for (const bool fits : {true, false}) {
    set_conditions({.device_bytes = workspace + (fits ? std::size_t{64} << 20 : own * 3 / 2)});
    CudaDevice device(0);
    Evaluator evaluator(small_network(), chosen, device);
    if (gpu_calls()) {
      EXPECT_EQ(evaluator.keeps_records(), fits);
    }
    evaluator.load(checkpoint(small_network()), TrainedValues::variables);
    const std::vector<float> found = seen(evaluator, many.dataset()).outputs();
    if (fits) expected = found;
    EXPECT_TRUE(equal_bits(found, expected));
  }
}

TEST_F(EvaluatorOnAGpu, RecordsThatAreNotInMemoryAreCopied) {
  const NoiseRecords decoded(record_count, 784, CacheMode::none);
  set_conditions({});
  CudaDevice device(0);
  EvaluatorSettings chosen = settings();
  chosen.repeated = part_of(decoded.dataset(), mpi_world());
  Evaluator evaluator(small_network(), chosen, device);
  EXPECT_FALSE(evaluator.keeps_records());
  evaluator.load(checkpoint(small_network()), TrainedValues::variables);
  EXPECT_TRUE(equal_bits(seen(evaluator, decoded.dataset()).outputs(), outputs(small_network(), settings(), device)));
}

TEST_F(EvaluatorOnAGpu, KeptRecordsAreCopiedOnceForAllEvaluations) {
  set_conditions({});
  CudaDevice device(0);
  EvaluatorSettings chosen = settings();
  chosen.repeated = part_of(records(), mpi_world());
  Evaluator evaluator(small_network(), chosen, device);
  evaluator.load(checkpoint(small_network()), TrainedValues::variables);
  const std::vector<float> first = seen(evaluator).outputs();
  if (const auto before = gpu_calls()) {
    EXPECT_TRUE(equal_bits(seen(evaluator).outputs(), first));
    const std::size_t own = record_count * (mpi_world().rank() + 1) / mpi_world().size() -
                            record_count * mpi_world().rank() / mpi_world().size();
    const std::size_t blocks = ((own + batch_size - 1) / batch_size + 15) / 16;
    // For each block of batches, there are two copies: the rows of the block's samples, and the block's outputs. The
    // first block ends at the end of the ring.
    EXPECT_LE(gpu_calls()->copies - before->copies, 2 * blocks + 2);
  }
  const NoiseRecords others(record_count, 784);
  EXPECT_ANY_THROW(seen(evaluator, others.dataset())) << "records that the GPU does not keep";
}

TEST_F(EvaluatorOnAGpu, ConvertsOncePerEvaluationAndLaunchesAGraphPerBatch) {
  if (mpi_world().size() > 1 || !gpu_calls()) return;
  CudaDevice device(0);
  const auto communicator = make_self_communicator(device);
  const Network network = mnist_network(mnist_images());
  const NoiseRecords few(10, 784);
  for (const bool views : {false, true}) {
    EvaluatorSettings chosen = settings(Arithmetic::bf16);
    chosen.test_time_augmentation = views;
    chosen.repeated = part_of(few.dataset(), mpi_world());
    Tower tower(network, ten_classes(), {.batch_size = 1, .arithmetic = Arithmetic::bf16}, device, *communicator);
    tower.initialize(1);
    tower.broadcast_from_first();
    Evaluator evaluator(network, chosen, device);
    seen(evaluator, few.dataset());  // the first evaluation launches each kernel once and captures the graphs
    const GpuCalls before = *gpu_calls();
    evaluator.load_averages(tower.moving_averages(), tower.buffers());
    seen(evaluator, few.dataset());
    const GpuCalls after = *gpu_calls();
    EXPECT_EQ(after.kernels - before.kernels, 4u) << "the conversions of two weights and two biases";
    EXPECT_EQ(after.graph_launches - before.graph_launches, 5u) << "one of each batch";
    // A batch has five graph nodes: input, two matrix products, the ReLU between them, and outputs. With views, a batch
    // has six passes. Each pass has six nodes, because one more kernel makes the view.
    EXPECT_EQ(after.graph_nodes - before.graph_nodes, 5u * (views ? 6 * 6 : 5));
    EXPECT_EQ(after.copies - before.copies, 3u) << "averages, rows of samples, outputs";
    EXPECT_EQ(after.waits - before.waits, 1u);
  }
}

/// Returns the mean of the outputs over the views. The host makes the views, and `plain`, an evaluator without views,
/// evaluates each view as an image.
std::vector<float> mean_over_host_views(Evaluator& plain, const Dataset& dataset, const ImageShape& shape) {
  std::vector<float> means;
  for (std::size_t first = 0; first < dataset.size(); first += batch_size) {
    std::vector<float> of_batch;
    for (const ImageView& view : augmented_views) {
      std::vector<std::vector<std::uint8_t>> views(batch_size, std::vector<std::uint8_t>(shape.bytes()));
      std::vector<const std::uint8_t*> images;
      for (std::size_t i = 0; i < views.size(); ++i) {
        write_view(view, shape, dataset.image(std::min(first + i, dataset.size() - 1)), views[i].data());
        images.push_back(views[i].data());
      }
      const std::vector<float> outputs = plain.outputs({.images = images});
      of_batch.resize(outputs.size());
      for (std::size_t i = 0; i < outputs.size(); ++i) of_batch[i] += view.weight * outputs[i];
    }
    means.insert(means.end(), of_batch.begin(), of_batch.end());
  }
  means.resize(10 * dataset.size());
  return means;
}

TEST_F(EvaluatorOnAGpu, ViewsEqualThoseOfTheHostBitForBit) {
  if (mpi_world().size() > 1) return;  // with several ranks, each rank evaluates other records
  set_conditions({});
  CudaDevice device(0);
  const Network network = normalized_network();
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    EvaluatorSettings chosen = settings(arithmetic);
    Evaluator plain(network, chosen, device);
    plain.load(checkpoint(network), TrainedValues::variables);
    const std::vector<float> expected = mean_over_host_views(plain, records(), network.image);
    chosen.test_time_augmentation = true;
    EXPECT_TRUE(equal_bits(outputs(network, chosen, device), expected));
    EXPECT_FALSE(equal_bits(seen(plain).outputs(), expected)) << "views change nothing";
  }
}

TEST_F(EvaluatorOnAGpu, SeesNewVariablesInEachEvaluation) {
  const Network network = normalized_network();
  const LoadedCheckpoint first = checkpoint(network, 1), second = checkpoint(network, 2);
  set_conditions({});
  CudaDevice device(0);
  const auto loaded = [&](Evaluator& evaluator, const LoadedCheckpoint& values) {
    evaluator.load(values, TrainedValues::variables);
    return seen(evaluator).outputs();
  };
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    Evaluator evaluator(network, settings(arithmetic), device);
    const std::vector<float> before = loaded(evaluator, first), after = loaded(evaluator, second);
    EXPECT_FALSE(equal_bits(before, after));
    Evaluator fresh(network, settings(arithmetic), device);
    EXPECT_TRUE(equal_bits(loaded(fresh, second), after));
    // Repeat the comparison with `load`, as trainings and evaluation programs load variables.
    if (mpi_world().rank() == 0) evaluator.load(first, TrainedValues::variables);
    evaluator.broadcast_from_first(mpi_world());
    EXPECT_TRUE(equal_bits(seen(evaluator).outputs(), before));
    const auto communicator = make_self_communicator(device);
    Tower tower(network, ten_classes(), {.batch_size = 1, .arithmetic = arithmetic}, device, *communicator);
    tower.initialize_from(second);
    tower.broadcast_from_first();
    evaluator.load_averages(tower.moving_averages(), tower.buffers());
    EXPECT_TRUE(equal_bits(seen(evaluator).outputs(), after));
    std::vector<const std::uint8_t*> images(batch_size, records().image(0));
    const Batch batch{.images = images};
    EXPECT_TRUE(equal_bits(evaluator.outputs(batch), fresh.outputs(batch)));
    evaluator.load(first, TrainedValues::variables);
    EXPECT_FALSE(equal_bits(evaluator.outputs(batch), fresh.outputs(batch)));
  }
}

TEST_F(EvaluatorOnAGpu, EvaluationsDoNotDisturbTheTraining) {
  const auto trained = [&](bool evaluates) {
    set_conditions({.seed = 3});
    CudaDevice device(0);
    const auto communicator = make_communicator(mpi_world(), device);
    Tower tower(small_network(), ten_classes(), {.batch_size = 4, .dataset = &records()}, device, *communicator);
    if (mpi_world().rank() == 0) tower.initialize(1);
    tower.broadcast_from_first();
    EvaluatorSettings chosen = settings();
    chosen.repeated = part_of(records(), mpi_world());
    Evaluator evaluator(small_network(), chosen, device);
    std::vector<std::vector<float>> found;
    for (int step = 0; step < 60; ++step) {
      std::vector<std::uint32_t> numbers;
      for (int i = 0; i < 4; ++i) numbers.push_back(static_cast<std::uint32_t>((7 * step + i) % record_count));
      tower.step({.step = step, .batch = {.records = numbers, .first_position = 4 * static_cast<std::uint64_t>(step)}});
      if (!evaluates || step % 25 != 24) continue;
      tower.synchronize_buffers();
      evaluator.load_averages(tower.moving_averages(), tower.buffers());
      found.push_back(seen(evaluator).outputs());
    }
    while (tower.next_result(Results::all)) {
    }
    if (evaluates) {
      EXPECT_FALSE(equal_bits(found.at(0), found.at(1))) << "the training changes the outputs";
    }
    std::vector<float> values(tower.parameters().values().size());
    device.download(tower.parameters().values().data(), values.data(), values.size() * sizeof(float));
    return values;
  };
  EXPECT_TRUE(equal_bits(trained(true), trained(false)));
}

TEST_F(EvaluatorOnAGpu, AnEvaluationThatFailsLeavesNothingToTheNext) {
  const Network network = small_network();
  LoadedCheckpoint infinite = checkpoint(network);
  for (NamedArray& array : infinite.state.variables) std::ranges::fill(array.values, 3e38f);
  set_conditions({});
  CudaDevice device(0);
  Evaluator evaluator(network, settings(), device);
  evaluator.load(infinite, TrainedValues::variables);
  EXPECT_ANY_THROW(seen(evaluator));
  evaluator.load(checkpoint(network), TrainedValues::variables);
  EXPECT_TRUE(equal_bits(seen(evaluator).outputs(), outputs(network, settings(), device)));
}

}  // namespace
}  // namespace carillon::testing
