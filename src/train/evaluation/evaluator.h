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
#include "src/step/forward/forward_pass.h"

namespace carillon {

/// Which values of a training are evaluated.
enum class TrainedValues { variables, moving_averages };

/// A rank's part of the records of an evaluation.
struct EvaluatedPart {
  const Dataset* dataset = nullptr;
  RecordRange records;
};
/// Every rank evaluates a contiguous part.
EvaluatedPart part_of(const Dataset& dataset, const Mpi& mpi);

struct EvaluatorSettings {
  std::int64_t batch_size = 1;  ///< records that go through the network at a time
  Arithmetic arithmetic = Arithmetic::fp32;
  /// Average the outputs of each image over mirrored and shifted views of it (src/step/forward/image_views.h): six
  /// times the work.
  bool test_time_augmentation = false;
  int decode_threads = 2;          ///< for records that are not in memory
  std::size_t prefetch_bytes = 0;  ///< PrefetchSettings::bytes
  bool capture = true;             ///< replay captured passes if the device can
  /// The records that evaluate() will evaluate repeatedly, if it evaluates no other records. A GPU keeps their images
  /// if the dataset is in host memory and the images need at most 256 MiB and at most half of the GPU's free memory.
  /// The dataset outlives the evaluator. Without a dataset, evaluate() may evaluate any records.
  EvaluatedPart repeated = {};
};

class Evaluator {
 public:
  /// `device` outlives the evaluator.
  Evaluator(const Network& network, const EvaluatorSettings& settings, Device& device);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Loads the values that `values` selects, and the buffers, from a checkpoint. Errors: data (the checkpoint belongs
  /// to another model, or a value is not finite).
  void load(const LoadedCheckpoint& checkpoint, TrainedValues values);
  /// Sends rank 0's parameters and buffers to every rank. Collective.
  void broadcast_from_first(const Mpi& mpi);
  /// Copies these moving averages and buffers of the same network on the same device. `averages`: device memory in the
  /// layout of Tower::parameters(). Call Tower::synchronize_buffers first.
  void load_averages(std::span<float> averages, const BufferStore& buffers);

  /// Whether a GPU keeps the images of EvaluatorSettings::repeated.
  bool keeps_records() const { return pass_->keeps_records(); }

  /// The network's outputs for a batch of EvaluatorSettings::batch_size samples, [batch, output elements]; with
  /// test-time augmentation, the mean of the outputs over the views.
  std::vector<float> outputs(const Batch& batch);

  /// Fills a metric with all records and returns it, equal on all ranks. Every rank evaluates its part_of the records;
  /// the parts are merged in rank order. Calls `batch_done` after each batch that is enqueued. Collective. Errors: as
  /// Dataset::read; failed (an output is not finite). All ranks throw together (Mpi::run_on_all).
  std::unique_ptr<Metric> evaluate(
      const MakeMetric& make_metric, const Dataset& dataset, const Mpi& mpi,
      const std::function<void()>& batch_done = [] {});

 private:
  /// The data that the metric needs of a batch after its outputs are computed.
  struct PendingBatch {
    std::vector<std::uint32_t> records;  ///< records of the valid samples
    std::vector<std::byte> targets;      ///< targets of the valid samples
  };

  /// Prepares an evaluation. It is called before the first batch of every evaluation, so that no change of the
  /// variables is missed.
  void begin();
  /// Adds this rank's part of the records.
  void add_part(Metric& metric, const Dataset& dataset, const Mpi& mpi, const std::function<void()>& batch_done);
  PendingBatch pending(const Batch& batch, const Dataset& dataset) const;

  Device& device_;
  EvaluatorSettings settings_;
  BuiltNetwork network_;
  ParameterStore parameters_;
  BufferStore buffers_;
  std::unique_ptr<ForwardPass> pass_;
};

}  // namespace carillon
