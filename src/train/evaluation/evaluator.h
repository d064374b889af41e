// Evaluator: what a model's parameters take the records of a data set for, every record counted once at any number of
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/mpi/mpi.h"
#include "src/graph/executable.h"
#include "src/report/accuracy.h"
#include "src/report/confusion_matrix.h"
#include "src/step/input/input_stage.h"

namespace carillon {

/// Which values of a training are evaluated.
enum class TrainedValues { variables, moving_averages };

struct EvaluatorSettings {
  std::int64_t batch_size = 1;  ///< records that go through the network at a time
  Arithmetic arithmetic = Arithmetic::fp32;
  /// Average the logits of each image over mirrored and shifted views of it (src/train/evaluation/image_views.h): six
  /// times the work.
  bool test_time_augmentation = false;
  int decode_threads = 2;          ///< of records that are not in memory
  std::size_t prefetch_bytes = 0;  ///< PrefetchSettings::bytes
};

class Evaluator {
 public:
  /// `device` outlives the evaluator.
  Evaluator(const Network& network, const EvaluatorSettings& settings, Device& device);

  /// Uses these values of a checkpoint, and its buffers, from now on. Errors: data (another model's).
  void load(const LoadedCheckpoint& checkpoint, TrainedValues values);
  /// Rank 0's parameters to every rank. Collective.
  void broadcast_from_first(const Mpi& mpi);
  /// Uses these moving averages and buffers of the same network on the same device from now on. After
  /// Tower::synchronize_buffers.
  void load_averages(std::span<float> averages, const BufferStore& buffers);

  /// The logits of a batch of so many samples as the settings say, [batch, classes], averaged over the views where
  /// there are several.
  std::vector<float> logits(const Batch& batch);

  /// Every rank takes a contiguous part of the records; the counts are summed. Collective. Errors: those of
  /// Dataset::read, found out together (Mpi::run_on_all).
  /// `batch_done` is called after each batch.
  Accuracy evaluate(
      const Dataset& dataset, const Mpi& mpi, const std::function<void()>& batch_done = [] {});
  /// The same, by classes.
  ConfusionMatrix count_by_class(
      const Dataset& dataset, const Mpi& mpi, const std::function<void()>& batch_done = [] {});

 private:
  using Count = std::function<void(std::int32_t label, std::int64_t predicted)>;
  /// Calls `count` for each record of this rank's part.
  void predict(const Dataset& dataset, const Mpi& mpi, const Count& count, const std::function<void()>& batch_done);
  /// For the valid samples of `batch`.
  void predict(const Batch& batch, const Count& count);
  /// [batch, classes]
  std::vector<float> logits_of(const Batch& batch);
  /// The same, averaged over the views.
  std::vector<float> mean_logits_of_views(const Batch& batch);

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
