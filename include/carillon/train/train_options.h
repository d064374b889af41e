// TrainOptions: what a training is told, as values; the command line's names and texts for it are in src/app/options.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/comm/wire.h"
#include "carillon/data/dataset.h"
#include "carillon/data/record_form.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "carillon/optim/optimizer_settings.h"
#include "carillon/report/summary_style.h"
#include "carillon/tasks/task.h"

namespace carillon {

struct TowerSettings;

enum class DeviceChoice { automatic, cpu, cuda };        ///< automatic: a GPU where there is one
enum class CommunicatorChoice { automatic, nccl, mpi };  ///< what averages GPUs' gradients; automatic: NCCL if it can
enum class Sharding {
  record,  ///< each global batch is shared out: any number of ranks trains on the same samples
  file     ///< each rank draws from files of its own
};
enum class OnNan {
  stop,    ///< end the run
  report,  ///< find out first what made its loss infinite or NaN
};
enum class ResumeMode {
  automatic,  ///< go on from the train directory's newest checkpoint, if there is one
  never,      ///< refuse a train directory with a checkpoint
  require     ///< refuse one without
};

enum class ScheduleKind { exponential, constant, step, polynomial, cosine, triangular };
/// Whether such a schedule goes to ScheduleOptions::steps.
constexpr bool has_end(ScheduleKind kind) { return kind == ScheduleKind::polynomial || kind == ScheduleKind::cosine; }

/// The learning rate over the steps, which are global ones. After a warm-up, exponential begins; polynomial and cosine
/// go from its end to `steps`; what is said of later steps, step and triangular, holds from there on.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::exponential;
  std::int64_t warm_up_steps = 0;
  double warm_up_from = 0.0;
  std::int64_t steps = 0;  ///< of polynomial and cosine; 0: TrainOptions::max_steps
  double final_rate = 0.0;
  double power = 1.0;
  std::vector<std::int64_t> milestones;
  double milestone_factor = 0.1;
  std::vector<SchedulePoint> points;  ///< of triangular, in place of the learning rate
};

/// What a network is told of a training set (NetworkSettings).
struct FoundRecords {
  float density = 1.0f;  ///< Dataset::density
  std::uint64_t record_count = 0;
};

struct TrainOptions {
  std::vector<std::string> data;        ///< paths and globs of training records
  std::vector<std::string> eval_data;   ///< of records to evaluate on while training; none: no evaluation
  std::int64_t evaluation_batch = 200;  ///< records that those evaluations take at a time
  std::int64_t eval_every = 0;          ///< steps; 0: at the end only
  bool test_time_augmentation = false;  ///< in those evaluations; where the program has it
  double stop_at_accuracy = 0.0;        ///< of an evaluation, which then ends the run; 0: none does
  std::string image_key, label_key;     ///< features of a record; empty: the model's
  std::string train_dir;
  std::string model;
  MakeNetwork make_network = nullptr;  ///< of `model`
  RecordForm record_form;
  std::int64_t max_steps = 1000;
  std::int64_t batch_size = 100;  ///< per tower; with a global batch, its part of that
  std::int64_t global_batch = 0;  ///< samples of a step over all towers; 0: batch_size of each
  std::int64_t micro_batch = 0;   ///< samples that go through the network at once; 0: batch_size
  double learning_rate = 0.001;
  double learning_rate_decay = 0.99;
  std::int64_t decay_steps = 0;  ///< 0, until the program has put the reference's there (ProgramSpec::decay_steps)
  bool staircase = false;
  double regularization = 0.0001;
  double moving_average_decay = 0.99;
  ScheduleOptions schedule_options;
  OptimizerSettings optimizer_settings;  ///< but for its schedule and moving averages, which are this struct's
  double label_smoothing = 0.0;
  double rotate = 0.0, zoom = 0.0, shift = 0.0;  ///< of images (WarpSettings)
  double mixup = 0.0, cutmix = 0.0;
  bool sync_batch_norm = false;
  double pixel_scale = 1.0;
  std::optional<PixelNormalization> normalization = std::nullopt;  ///< in place of the network's own
  std::uint64_t seed = 1;
  bool shuffle = true;
  std::int64_t shuffle_window = 0;  ///< records that are shuffled among each other (SampleOrder); 0: all
  Sharding sharding = Sharding::record;
  std::string stage;          ///< directory of each host to which data files are copied first; empty: none
  bool skip_damaged = false;  ///< records of training
  bool distort = true;        ///< where the program has it
  CacheMode cache = CacheMode::automatic;
  DeviceChoice device = DeviceChoice::automatic;
  Arithmetic precision = Arithmetic::fp32;
  CpuSettings cpu = {};
  CommunicatorChoice comm = CommunicatorChoice::automatic;
  bool cuda_graph = true;
  bool preflight = false;           ///< only look at what a run would find (src/train/preflight/preflight.h)
  bool share_gpus = false;          ///< several towers on a GPU are meant, where that is looked at
  std::int64_t threads = 0;         ///< per rank; 0: this rank's share of the cores
  std::int64_t decode_threads = 0;  ///< per rank, of records that are not all in memory; 0: as the device is
  std::int64_t prefetch_bytes = 0;  ///< of images decoded ahead; 0: as PrefetchSettings
  std::int64_t bucket_kib = 0;      ///< 0: as bucket_bytes_on
  Wire wire = Wire::fp32;           ///< of gradients between hosts of CPUs
  std::int64_t log_every = 10;      ///< 0: no lines
  std::int64_t summary_every = 10;  ///< 0: no summaries
  bool summarize_start = true;      ///< where there are summaries: of step 0, too
  SummaryStyle summary_style = SummaryStyle::variables;
  std::int64_t checkpoint_every = 1000;       ///< 0: at the end only
  std::int64_t checkpoint_every_seconds = 0;  ///< 0: by steps only
  std::int64_t keep_checkpoints = 5;          ///< 0: all
  std::int64_t keep_every = 0;                ///< steps; 0: none but the newest
  bool keep_best = true;                      ///< by evaluation
  std::int64_t checkpoint_failures = 10;      ///< in a row that a run survives
  std::string time_limit;                     ///< seconds, or slurm: to the job's end; empty: none
  std::int64_t time_margin = 60;              ///< seconds before that at which a run stops
  ResumeMode resume = ResumeMode::automatic;
  bool fresh = false;
  std::string init_from;
  std::vector<std::string> init_exclude;  ///< patterns of variables and buffers that are not taken from there
  std::vector<std::string> freeze;        ///< patterns of variables that are never trained
  std::int64_t check_replicas = 1000;     ///< steps between comparisons of the ranks' variables; 0: none
  OnNan on_nan = OnNan::stop;
  double stall_timeout = 300.0;  ///< seconds that a rank may stand still (src/comm/stall/stall_detector.h); 0: for ever
  bool log_device_placement = false;

  /// How many samples of a tower go through the network at once.
  std::int64_t samples_at_once() const { return micro_batch > 0 ? micro_batch : batch_size; }
  TowerSettings tower() const;
  Schedule schedule() const;
  OptimizerSettings optimizer() const;
  /// The network to train, for the records that the program's form names; `found` of them when they are open. Errors:
  /// those of make_network.
  Network network(const FoundRecords& found = {}) const;
  /// The task that the network is trained for.
  Task task() const;
};

}  // namespace carillon
