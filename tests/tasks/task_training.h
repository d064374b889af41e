// Trains a small network for the task of a test, computes scores over all records, and compares the results with
// float64 numpy (tests/data/samples/make_task_results.py).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "src/comm/allreduce/communicator.h"
#include "src/data/loading/batch_loader.h"
#include "src/device/cpu_device.h"
#include "src/graph/executable.h"
#include "src/step/tower.h"
#include "tests/support/mpi_world.h"
#include "tests/support/target_records.h"

namespace carillon::testing {

/// The values of each result, by the name of the result (see make_task_results.py), in the order of the file.
using TaskResults = std::map<std::string, std::vector<double>>;

class TaskTraining {
 public:
  static constexpr int record_count = 24, global_batch = 8, steps = 20;

  /// `targets`: the bytes of the targets of all records.
  TaskTraining(const Task& task, std::span<const std::byte> targets)
      : task_(task), network_(network_of(task.outputs)), dataset_(dataset_of(task.target, targets)) {}

  /// Trains, and returns the losses, variables and scores. `micro_batch`: as in TowerSettings. Collective.
  TaskResults train(std::int64_t micro_batch) {
    const Mpi& mpi = mpi_world();
    const std::int64_t batch_size = global_batch / mpi.size();
    const TowerSettings settings{.batch_size = batch_size,
                                 .micro_batch = micro_batch,
                                 .optimizer = {.rule = "sgd", .learning_rate = constant_rate(0.25)}};
    const auto communicator = make_communicator(mpi, device_, "auto", {}, averaging_of(settings, mpi.size()));
    Tower tower(network_, task_, settings, device_, *communicator);
    if (mpi.rank() == 0) {
      tower.initialize(1, {{"hidden/weights", first_values(16 * 6)},
                           {"output/weights", first_values(static_cast<std::size_t>(6 * task_.outputs))}});
    }
    tower.broadcast_from_first();
    BatchLoader loader(dataset_, SampleOrder(record_count, 1, false),
                       {.global_batch = global_batch,
                        .tower_offset = static_cast<std::uint64_t>(batch_size * mpi.rank()),
                        .batch_size = static_cast<std::size_t>(batch_size)});
    TaskResults results;
    for (int step = 0; step < steps; ++step) {
      tower.step({.step = step, .batch = loader.next()});
      results["loss"].push_back(tower.next_result(Results::all).value().loss);
    }
    tower.synchronize_buffers();
    for (std::size_t i = 0; i < tower.parameters().specs().size(); ++i) {
      const auto values = tower.parameters().value(static_cast<int>(i)).floats();
      results[tower.parameters().specs()[i].name].assign(values.begin(), values.end());
    }
    for (const Score& score : scores_of(tower.parameters())) results[score.name] = {score.value};
    return results;
  }

 private:
  static Network network_of(std::int64_t outputs) {
    return make_network("small", {.image = {4, 4, 1}}, [outputs](Graph& graph) {
      Value x = image_input(graph, "input", {.sample = {4, 4, 1}, .scale = 1.0f / 256.0f});
      x = relu(graph, "hidden/relu", dense(graph, "hidden", x, {.units = 6}));
      return dense(graph, "output", x, {.units = outputs});
    });
  }

  static Dataset dataset_of(const TargetSpec& spec, std::span<const std::byte> targets) {
    std::vector<std::uint8_t> images;
    for (std::size_t i = 0; i < record_count; ++i) {
      for (std::size_t p = 0; p < 16; ++p) {
        images.push_back(static_cast<std::uint8_t>(7 * i * i + 5 * i * p + 13 * p + 31));
      }
    }
    return dataset_with_targets({4, 4, 1}, spec, images, targets);
  }

  static std::vector<float> first_values(std::size_t count) {
    std::vector<float> values;
    for (std::size_t n = 0; n < count; ++n) {
      values.push_back((static_cast<float>((37 * n + 11) % 97) - 48.0f) / 128.0f);
    }
    return values;
  }

  /// Returns the scores over all records. Each rank adds its part of the records to its own metric. Then the metrics
  /// are merged.
  std::vector<Score> scores_of(const ParameterStore& parameters) {
    const Mpi& mpi = mpi_world();
    const auto count = static_cast<std::size_t>(record_count / mpi.size());
    const BuiltNetwork built =
        build_network(network_, {.batch_size = static_cast<std::int64_t>(count), .purpose = Purpose::evaluation});
    const auto stage = make_input_stage(device_, {.batch_size = count, .image_bytes = 16});
    const BufferStore buffers(built.graph.buffers(), device_);
    Executable executable(built.graph, {device_, parameters, buffers, stage->inputs()}, false, {built.output});
    BatchLoader loader(
        dataset_, SampleOrder(record_count, 1, false),
        {.start = count * static_cast<std::size_t>(mpi.rank()), .global_batch = count, .batch_size = count});
    const Batch& batch = loader.next();
    stage->write(0, {.batch = batch});
    executable.forward(device_.stream());
    const auto metric = task_.make_metric();
    metric->add(executable.tensor(built.output).floats(), batch.targets);
    const auto all = task_.make_metric();
    for (const std::string& contents : mpi.all_gather(metric->contents())) all->merge(contents);
    return all->scores();
  }

  CpuDevice device_{2};
  Task task_;
  Network network_;
  Dataset dataset_;
};

/// Expects the results in `file`, which are in float64. The results may differ by rounding errors of float32.
inline void expect_results(const TaskResults& found, const std::string& file) {
  TaskResults expected;
  std::ifstream lines(std::filesystem::path(CARILLON_TEST_SAMPLES) / file);
  std::string name;
  for (double value = 0.0; lines >> name >> value;) expected[name].push_back(value);
  ASSERT_EQ(expected["loss"].size(), static_cast<std::size_t>(TaskTraining::steps)) << file;
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, values] : expected) {
    ASSERT_EQ(found.at(key).size(), values.size()) << key;
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found.at(key)[i], values[i], 2e-6) << key << " " << i;
  }
}

}  // namespace carillon::testing
