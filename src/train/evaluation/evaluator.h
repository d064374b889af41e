// Evaluator: runs a trained network on the records of a dataset and fills a metric with the outputs. Every record
// counts once at any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "carillon/tasks/metric.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/mpi/mpi.h"
#include "src/graph/executable.h"
#include "src/step/input/input_stage.h"

namespace carillon {

/// Which values of a training are evaluated.
enum class TrainedValues { variables, moving_averages };

struct EvaluatorSettings {
  std::int64_t batch_size = 1;  ///< records that go through the network at a time
  Arithmetic arithmetic = Arithmetic::fp32;
  /// Average the outputs of each image over mirrored and shifted views of it (src/train/evaluation/image_views.h):
  /// six times the work.
  bool test_time_augmentation = false;
  int decode_threads = 2;          ///< for records that are not in memory
  std::size_t prefetch_bytes = 0;  ///< PrefetchSettings::bytes
};

class Evaluator {
 public:
  /// `device` outlives the evaluator.
  Evaluator(const Network& network, const EvaluatorSettings& settings, Device& device);

  /// Loads these values of a checkpoint, and its buffers. Errors: data (of another model, or not finite).
  void load(const LoadedCheckpoint& checkpoint, TrainedValues values);
  /// Sends rank 0's parameters and buffers to every rank. Collective.
  void broadcast_from_first(const Mpi& mpi);
  /// Loads these moving averages and buffers of the same network on the same device. Call Tower::synchronize_buffers
  /// first.
  void load_averages(std::span<float> averages, const BufferStore& buffers);

  /// The network's outputs for a batch of EvaluatorSettings::batch_size samples, [batch, output elements]; with
  /// test-time augmentation their mean over the views.
  std::vector<float> outputs(const Batch& batch);

  /// Fills a metric with all records and returns it, equal on all ranks. Every rank evaluates a contiguous part of the
  /// records; the parts are merged in rank order. Calls `batch_done` after each batch. Collective. Errors: those of
  /// Dataset::read, failed (an output is not finite), found by all ranks together (Mpi::run_on_all).
  std::unique_ptr<Metric> evaluate(
      const MakeMetric& make_metric, const Dataset& dataset, const Mpi& mpi,
      const std::function<void()>& batch_done = [] {});

 private:
  /// Adds this rank's part of the records.
  void add_part(Metric& metric, const Dataset& dataset, const Mpi& mpi, const std::function<void()>& batch_done);
  /// Adds the valid samples of `batch`.
  void add(Metric& metric, const Batch& batch);
  /// [batch, output elements]
  std::vector<float> outputs_of(const Batch& batch);
  /// The same, averaged over the views.
  std::vector<float> mean_outputs_of_views(const Batch& batch);

  Device& device_;
  ImageShape image_;
  bool augments_;
  int decode_threads_;
  std::size_t prefetch_bytes_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  ParameterStore parameters_;
  BufferStore buffers_;
  Executable executable_;
};

}  // namespace carillon
