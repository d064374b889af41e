// Evaluator: runs a trained network on the records of a dataset and fills a metric with the outputs. Every record
// counts once, for any number of ranks. TaskScore and Patience decide from the metric which checkpoint is the best, and
// when the run ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "carillon/tasks/metric.h"
#include "carillon/tasks/task.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/metrics.h"
#include "src/step/forward/forward_pass.h"

namespace carillon {

/// The values of a training that an evaluation uses.
enum class TrainedValues { variables, moving_averages };

/// A rank's part of the records of an evaluation.
struct EvaluatedPart {
  const Dataset* dataset = nullptr;
  RecordRange records;
};
/// Returns the part of the records that this rank evaluates. Each rank has a contiguous part.
EvaluatedPart part_of(const Dataset& dataset, const Mpi& mpi);

/// Limits an evaluation to a random sample of the records.
struct RandomSample {
  std::uint64_t seed = 0;         ///< determines the order of the records
  std::function<bool()> is_over;  ///< asked after each batch of this rank; true: no further batch
};

/// The number of views of an image with test-time augmentation (src/step/forward/forward_kernels.h).
inline constexpr std::int64_t most_views = 6;
/// The cost of an evaluation per sample and view, as a fraction of the cost of a training step per sample. An
/// evaluation has only a forward pass, but its images in `carillon train` have up to 1.6 times the pixels of training
/// images.
inline constexpr double forward_share = 0.5;

struct EvaluatorSettings {
  std::int64_t batch_size = 1;  ///< records per forward pass
  Arithmetic arithmetic = Arithmetic::fp32;
  /// Average the outputs of each image over `most_views` mirrored and shifted views of the image.
  bool test_time_augmentation = false;
  int decode_threads = 2;          ///< threads that decode records, if the dataset is not in memory
  std::size_t prefetch_bytes = 0;  ///< PrefetchSettings::bytes
  bool capture = true;             ///< capture forward passes and replay them, if the device supports it
  /// The records that evaluate() will evaluate repeatedly. Set it only if evaluate() will evaluate no other records. A
  /// GPU keeps the images of these records if the dataset is in host memory and the images need at most 256 MiB and at
  /// most half of the GPU's free memory. The dataset outlives the evaluator. If `repeated.dataset` is null, evaluate()
  /// may be called for any dataset.
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
  /// Copies the given moving averages and buffers, which belong to the same network on the same device. `averages`:
  /// device memory in the layout of Tower::parameters(). Call Tower::synchronize_buffers first.
  void load_averages(std::span<float> averages, const BufferStore& buffers);

  /// True if a GPU keeps the images of EvaluatorSettings::repeated.
  bool keeps_records() const { return pass_->keeps_records(); }

  /// Computes the network's outputs for a batch of EvaluatorSettings::batch_size samples: [batch, output elements].
  /// With test-time augmentation, these are the means of the outputs over the views.
  std::vector<float> outputs(const Batch& batch);

  /// Adds the outputs and targets of all records to a new metric and returns the metric. The result is equal on all
  /// ranks. Every rank evaluates the records that part_of returns, and the results are merged in rank order. Calls
  /// `batch_done` after each batch that is enqueued. If `sample` is set, the records are put in a random order, each
  /// rank evaluates its part of this order, and the metric contains only the evaluated records. Collective. Errors: see
  /// Dataset::read; failed (an output is not finite). All ranks throw together (Mpi::run_on_all).
  std::unique_ptr<Metric> evaluate(
      const MakeMetric& make_metric, const Dataset& dataset, const Mpi& mpi,
      const std::function<void()>& batch_done = [] {}, const std::optional<RandomSample>& sample = std::nullopt);

 private:
  /// The data of a batch that the metric needs after the outputs of the batch have been computed.
  struct PendingBatch {
    std::vector<std::uint32_t> records;  ///< the records of the valid samples
    std::vector<std::byte> targets;      ///< the targets of the valid samples
  };

  /// Prepares an evaluation with the present values of the variables. outputs() and add_part() call it before their
  /// first batch.
  void begin();
  /// Adds this rank's part of the records to `metric`.
  void add_part(Metric& metric, const Dataset& dataset, const Mpi& mpi, const std::function<void()>& batch_done,
                const std::optional<RandomSample>& sample);
  PendingBatch pending(const Batch& batch, const Dataset& dataset) const;

  Device& device_;
  EvaluatorSettings settings_;
  BuiltNetwork network_;
  ParameterStore parameters_;
  BufferStore buffers_;
  std::unique_ptr<ForwardPass> pass_;
};

/// The score of a task. A run uses the score to choose its best checkpoint and to end early.
class TaskScore {
 public:
  /// `target`: the score that ends the run. Errors: failed (the task's metric has no such score).
  explicit TaskScore(const Task& task, std::optional<double> target = std::nullopt);

  /// Returns the score in a metric. The task must have made the metric.
  Score of(const Metric& metric) const;
  /// Returns the score of a metric without samples. It has the same names as all other scores of the task.
  const Score& form() const { return form_; }
  /// True if `score` is better than `than`. False if the scores are equal or if `score` is NaN. Every score except NaN
  /// is better than NaN.
  bool is_better(const Score& score, const Score& than) const;
  /// True if there is a target and the score has reached or exceeded it.
  bool reaches_target(const Score& score) const;
  bool has_target() const { return target_.has_value(); }

 private:
  std::string name_;
  bool higher_is_better_;
  std::optional<double> target_;
  Score form_;
};

/// Counts the evaluations of a run after the best evaluation, and decides when the run ends (--patience).
///
/// The count depends only on the scores and their order. Therefore a resumed run adds the logged evaluations again and
/// continues with the same count. All ranks add the same scores.
class Patience {
 public:
  /// `max_evaluations`: the run ends after this many evaluations in a row without a better score; 0: never. `score`
  /// outlives this.
  Patience(const TaskScore& score, std::int64_t max_evaluations) : score_(&score), max_evaluations_(max_evaluations) {}

  /// Adds an evaluation. TaskScore::is_better decides whether the evaluation is the best so far. A NaN is never the
  /// best. The first score that is not NaN is the best so far.
  void add(const StepScore& evaluation);
  bool is_over() const { return max_evaluations_ > 0 && since_best_ >= max_evaluations_; }
  /// Returns the best evaluation. If several evaluations are equally good, returns the first of them. Returns nullopt
  /// if all scores are NaN.
  const std::optional<StepScore>& best() const { return best_; }

 private:
  const TaskScore* score_;
  std::int64_t max_evaluations_;
  std::int64_t since_best_ = 0;  ///< number of evaluations after the best evaluation
  std::optional<StepScore> best_;
};

}  // namespace carillon
