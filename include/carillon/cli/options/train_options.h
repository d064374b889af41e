// TrainOptions: the options of a training, in one struct per consumer. The defaults of a program are also a
// TrainOptions value.
//
// The files `src/cli/options/*_options.cpp` declare the options of each group, check their values and document them in
// --help. "Not an option" marks a member that has no command-line option: the program sets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/reduction.h"
#include "carillon/data/dataset.h"
#include "carillon/data/decoder.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "carillon/optim/optimizer_settings.h"
#include "carillon/tasks/task.h"

namespace carillon {

// DataOptions: which records a training or an evaluation reads, in which order and batches, and how it augments images.

/// How the ranks share the training records.
enum class Sharding {
  record,  ///< the ranks divide each global batch; the samples of a step do not depend on the number of ranks
  file     ///< each rank reads only its own files
};

/// How a training draws its samples from its records.
enum class Sampling {
  uniform,  ///< draws each record once per epoch
  balanced  ///< draws equally often from each group of the task, such as a class
};

struct DataOptions {
  std::vector<std::string> files;       ///< paths and patterns of TFRecord files, or the single item "synthetic"
  std::vector<std::string> eval_files;  ///< paths and patterns of files for evaluations during training; empty: no
                                        ///< evaluations
  RecordForm record_form;               ///< not an option
  std::string image_key, label_key;     ///< names of the features of a record; empty: the names in record_form
  /// Steps between evaluations on eval_files; 0: evaluate only at the end. A completed training always ends with an
  /// evaluation.
  std::int64_t eval_every = 0;
  /// Records per batch of an evaluation on CPUs; an evaluation on a GPU uses at least this number. Not an option. The
  /// number is a multiple of 48. Reason: oneDNN's AVX2 matrix products process rows in blocks of 6 per thread, and
  /// round the rows of an incomplete block differently. With incomplete blocks, the result of a record would depend on
  /// the record's position in the batch and on the number of threads.
  std::int64_t evaluation_batch = 192;
  bool test_time_augmentation = false;  ///< an evaluation averages the outputs for the six views of each image

  /// Samples per rank and step. If global_batch is set, the program sets batch_size to global_batch / number of ranks.
  std::int64_t batch_size = 100;
  std::int64_t global_batch = 0;  ///< samples per step over all ranks; 0: each rank has batch_size samples
  /// Samples per forward and backward pass; 0: batch_size. Requires global_batch, which must be a multiple of
  /// micro_batch.
  std::int64_t micro_batch = 0;

  bool shuffle = true;  ///< new random order of the records in each epoch
  /// Number of records that are shuffled together. Each host reads these records from the files in advance, in long
  /// sequential reads. The number must be at least the number of samples of a step; 0: all records.
  std::int64_t shuffle_window = 0;
  Sampling sampling = Sampling::uniform;  ///< `balanced` cannot be combined with shuffle_window or Sharding::file
  Sharding sharding = Sharding::record;
  std::string stage;  ///< local directory, on each host, to which the program copies the files; empty: no copies
  /// Accept a set of data files even if their names state more shards than exist.
  bool allow_missing_shards = false;
  CacheMode cache = CacheMode::automatic;
  bool skip_damaged = false;  ///< replace each damaged training record by the next one
  /// Number of threads per rank that decode records, if the dataset is not in memory. 0: on CPUs 2 threads, on GPUs one
  /// thread per core of the rank.
  std::int64_t decode_threads = 0;
  /// Size of each rank's buffer for decoded images, in bytes; 0: room for one batch per decoding thread and three more
  /// batches.
  std::int64_t prefetch_bytes = 0;

  double pixel_scale = 1.0;  ///< factor by which the network multiplies pixel values from 0 to 255
  bool distort = true;       ///< random distortion of training images, by networks or decoders that support it
  /// Limits of the random changes of training images (WarpSettings). Rotation: degrees. Zoom: a fraction; the factor is
  /// from 1 - zoom to 1 + zoom. Shift: a fraction of height and width. 0: disabled.
  double rotate = 0.0, zoom = 0.0, shift = 0.0;
  double mixup = 0.0, cutmix = 0.0;  ///< mixing of pairs of training samples (MixingSettings)
  /// Normalization that replaces the network's normalization; not an option.
  std::optional<PixelNormalization> normalization = std::nullopt;

  /// Number of samples that a rank sends through the network at once.
  std::int64_t samples_at_once() const { return micro_batch > 0 ? micro_batch : batch_size; }
};

/// True if `files` requests noise images: its only item is "synthetic".
inline bool is_synthetic(const std::vector<std::string>& files) {
  return files.size() == 1 && files.front() == "synthetic";
}

// ModelOptions: the network of a training or an evaluation, and its seed.

struct ModelOptions {
  /// Name of one of the program's networks, or path of an ONNX file. Checkpoints store this name as the model's name.
  std::string name;
  std::string head;  ///< only for an ONNX file: the layer that gets new initial values if the file and the task have
                     ///< different numbers of outputs; empty: the last layer
  bool fresh_weights = false;      ///< draw the initial values instead of reading them from the ONNX file
  MakeNetwork make = nullptr;      ///< makes the network `name`; not an option
  std::uint64_t seed = 1;          ///< seed of initial variables, sample order and augmentation
  double drop_path = 0.0;          ///< stochastic depth: drop rate of the last residual block
  bool sync_batch_norm = false;    ///< batch norms compute their statistics over the batches of all ranks
  bool freeze_batch_norm = false;  ///< batch norms use their running statistics and do not change them
};

// TaskOptions: the task of a training, how the loss uses the targets, and the score that ends the training.

/// The loss of a regression (src/tasks/regression.h).
enum class RegressionLoss { squared, absolute, huber };

struct TaskOptions {
  Task value = {};               ///< not an option: the program sets it from the options and the records
  double label_smoothing = 0.0;  ///< part of each label, 0 to 1, that is spread evenly over all classes
  RegressionLoss regression_loss = RegressionLoss::squared;
  double huber_delta = 1.0;  ///< error above which the Huber loss is linear, in standard deviations of the target
  /// Weights of the classes in the loss: "none", "balanced", or the path of a CSV file (src/tasks/classification.h).
  std::string class_weights = "none";
  std::vector<double> weights_of_file = {};  ///< not an option: the class weights that the CSV file states; empty:
                                             ///< there is no file
  double focal_gamma = 0.0;                  ///< exponent of focal loss; 0: disabled
  /// The run ends after this many evaluations in a row without a better score; 0: disabled. Only the evaluations of
  /// DataOptions::eval_every count.
  std::int64_t patience = 0;
  double stop_at_accuracy = 0.0;  ///< accuracy at which an evaluation ends the run; 0: disabled

  bool weighs_classes() const { return class_weights != "none"; }
  bool balances_weights() const { return class_weights == "balanced"; }
  bool has_weight_file() const { return weighs_classes() && !balances_weights(); }

  /// Returns the score at which an evaluation ends the run, or nullopt if no score ends it.
  std::optional<double> target_score() const {
    return stop_at_accuracy > 0.0 ? std::optional(stop_at_accuracy) : std::nullopt;
  }
};

// ScheduleOptions: the learning rate as a function of the global step.

enum class ScheduleKind { exponential, constant, step, polynomial, cosine, triangular };

/// True if a schedule of this kind ends at ScheduleOptions::steps.
constexpr bool has_end(ScheduleKind kind) { return kind == ScheduleKind::polynomial || kind == ScheduleKind::cosine; }

/// The names in parentheses after a value are the kinds of schedule that use this value. All steps are global steps. An
/// exponential decay begins after the warm-up. A polynomial or cosine decay runs from the end of the warm-up to
/// `steps`.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::exponential;
  double learning_rate = 0.001;       ///< initial learning rate; triangular ignores it
  double learning_rate_decay = 0.99;  ///< factor that is applied every decay_steps steps (exponential)
  std::int64_t decay_steps = 0;       ///< steps between two multiplications by learning_rate_decay (exponential); 0:
                                      ///< ProgramSpec::decay_steps
  bool staircase = false;             ///< if true, multiply once every decay_steps steps; if false, a little at each
                                      ///< step (exponential); not an option
  std::int64_t warm_up_steps = 0;     ///< length of the warm-up in steps; 0: no warm-up
  double warm_up_from = 0.0;          ///< learning rate at step 0 of a warm-up
  /// Global step at which the decay ends (polynomial, cosine); 0: OptimizerOptions::max_steps.
  std::int64_t steps = 0;
  double final_rate = 0.0;               ///< learning rate at the end of the decay and afterwards (polynomial, cosine)
  double power = 1.0;                    ///< exponent of the decay (polynomial)
  std::vector<std::int64_t> milestones;  ///< global steps, ascending, at which the learning rate is multiplied by
                                         ///< milestone_factor (step)
  double milestone_factor = 0.1;         ///< factor of the learning rate at each milestone (step)
  std::vector<SchedulePoint> points;     ///< learning rates at some global steps; between two points the rate is linear
                                         ///< (triangular)
};

/// Returns the schedule of a training of `max_steps` steps. Errors: failed (decay_steps of an exponential schedule is
/// not set).
Schedule make_schedule(const ScheduleOptions& options, std::int64_t max_steps);

// OptimizerOptions: the number of updates of a training, the update rule and the learning rates.

struct OptimizerOptions {
  /// Global step at which the training ends. If `epochs` is set, the program first counts the records, and
  /// resolve_epochs then computes max_steps.
  std::int64_t max_steps = 1000;
  double time_budget = 0.0;  ///< time of the run in seconds; the number of steps is fitted to this time; 0: unlimited
  double epochs = 0.0;       ///< passes over the training records, from which max_steps is computed; 0: max_steps is
                             ///< given
  double regularization = 0.0001;   ///< factor of the L2 loss of the regularised weights (NetworkSettings)
  OptimizerSettings update;         ///< update rule and its constants. Only the result of settings() has a learning
                                    ///< rate
  ScheduleOptions schedule;         ///< the learning rate as a function of the global step
  std::vector<std::string> freeze;  ///< patterns of variables that are not trained

  /// True if the training runs at least one step.
  bool trains() const { return epochs > 0.0 || max_steps > 0; }
  /// Returns `update` with the learning rate of `schedule`. For each pattern of `freeze`, adds a parameter group that
  /// is never trained, in front of the other groups. Errors: as make_schedule.
  OptimizerSettings settings() const;
};

// DeviceOptions: the device of each rank, its arithmetic, and how the ranks average gradients.

enum class DeviceChoice { automatic, cpu, cuda };  ///< automatic: a GPU if there is one
/// The library that averages the gradients of GPUs; automatic: NCCL if possible, otherwise MPI.
enum class CommunicatorChoice { automatic, nccl, mpi };

struct DeviceOptions {
  DeviceChoice device = DeviceChoice::automatic;
  std::optional<Arithmetic> precision = Arithmetic::fp32;  ///< nullopt: the user chose --precision auto, and
                                                           ///< set_precision has not yet chosen a precision
  CpuSettings cpu = {};
  std::int64_t threads = 0;  ///< threads per rank; 0: the rank's share of the cores
  // Options of training programs only:
  std::int64_t ranks = 0;  ///< number of ranks that the program starts with mpirun; 0: the ranks that a launcher
                           ///< started, or one rank
  CommunicatorChoice comm = CommunicatorChoice::automatic;
  bool cuda_graph = true;             ///< replay each step, and each batch of an evaluation, as one captured CUDA graph
  std::int64_t bucket_kib = 0;        ///< KiB of gradients per all-reduce; 0: bucket_bytes_on chooses
  Wire wire = Wire::fp32;             ///< number format of gradients between hosts (CPUs)
  bool log_device_placement = false;  ///< list every op with its device and memory
  bool preflight = false;             ///< check hosts, train directory and averaging; do not train
  bool share_gpus = false;            ///< allow a preflight in which several ranks share a GPU
  // Not an option:
  Arithmetic arithmetic = Arithmetic::fp32;  ///< the precision that set_precision chose
};

// CheckpointOptions: the train directory, the initial state of a run, and when the run saves and stops.

/// Whether a run continues from a checkpoint of its train directory, and from which one.
enum class ResumeMode {
  automatic,  ///< from the newest checkpoint, if the directory has one
  never,      ///< refuse a train directory with a checkpoint
  require,    ///< from the newest checkpoint; refuse a train directory without one
  best        ///< from best.ckpt.h5; later checkpoints are removed. If best.ckpt.h5 is missing: as `automatic`
};

struct CheckpointOptions {
  std::string train_dir;  ///< directory for checkpoints and logs
  ResumeMode resume = ResumeMode::automatic;
  bool fresh = false;                     ///< remove checkpoints and logs from train_dir first
  bool begins_plan = false;               ///< --config is the next plan of `carillon train`; not an option
  std::string init_from;                  ///< checkpoint, train directory or *.safetensors with initial variables
  std::vector<std::string> init_exclude;  ///< patterns of variables and buffers that keep their own initial values
                                          ///< instead of values from init_from
  bool fit_head = false;  ///< before the first step, fit the last layer to the outputs of the other layers
  std::int64_t checkpoint_every = 1000;         ///< steps between two checkpoints; 0: only at the end
  std::int64_t checkpoint_every_seconds = 300;  ///< seconds between two checkpoints; 0: only checkpoint_every applies
  std::int64_t keep_checkpoints = 5;            ///< newest checkpoints to keep; 0: all
  std::int64_t keep_every = 0;                  ///< also keep checkpoints of steps that are multiples of this; 0: none
  bool keep_best = true;                        ///< keep the state of the best evaluation
  std::int64_t checkpoint_failures = 10;        ///< consecutive failed checkpoints that a run survives
  std::string time_limit;         ///< time of the run in seconds, or "slurm": until the job's end; empty: no limit
  std::int64_t time_margin = 60;  ///< a run saves and exits this many seconds before time_limit
};

// LoggingOptions: how often a training writes lines and TensorBoard summaries.

/// The tags of a run's TensorBoard summaries. For each dataset, the tags are the same as in the reference program.
enum class SummaryStyle {
  variables,  ///< histograms `<variable>`, `gradients_on_average/<variable>`; scalars `loss` and its parts
  layers,     ///< histograms `<variable>`, `<variable>/gradients`, `<layer>/activations`; scalars `total_loss` and its
              ///< parts, `<layer>/weight_loss`, `<layer>/sparsity`; example images
};

struct LoggingOptions {
  std::int64_t log_every = 10;      ///< steps between lines on the console and in metrics.jsonl; 0: none
  std::int64_t summary_every = 10;  ///< steps between TensorBoard summaries; 0: none
  bool summarize_start = true;      ///< also write a summary at step 0, if there are summaries; not an option
  SummaryStyle summary_style = SummaryStyle::variables;  ///< not an option
  /// If true, the program logs like the reference programs: the loss on the console includes L2, and TensorBoard gets
  /// values only at summaries. If false, the console shows L2 separately, and TensorBoard also gets values with each
  /// log line. Not an option.
  bool as_reference = true;
  /// Faster options, as text. A notice recommends them if a training will take more than an hour. Empty: no notice. Not
  /// an option.
  std::string faster_choice;
};

// FaultOptions: how a run detects and reports non-finite losses, replicas that differ, and ranks that hang.

/// The reaction of a training to a loss that is infinite or NaN.
enum class OnNan {
  stop,    ///< end the run
  report,  ///< first find out which op and which records caused it
};

struct FaultOptions {
  OnNan on_nan = OnNan::stop;
  std::int64_t check_replicas = 1000;  ///< steps between comparisons of the ranks' variables; 0: disabled
  std::int64_t audit = 0;              ///< recompute the gradients every N steps and compare (CPUs); 0: never
  double stall_timeout = 300.0;        ///< the run ends if a rank makes no progress for this many seconds; 0: disabled
};

// TrainOptions: all option groups together.

struct TrainOptions {
  DataOptions data;
  ModelOptions model;
  TaskOptions task;
  OptimizerOptions optimizer;
  DeviceOptions device;
  CheckpointOptions checkpoint;
  LoggingOptions logging;
  FaultOptions faults;
};

}  // namespace carillon
