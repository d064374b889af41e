// The options of the training and evaluation programs, with the reference's values as defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/app/option_set.h"
#include "carillon/data/dataset.h"
#include "carillon/models/model.h"
#include "carillon/optim/lr_schedule.h"

namespace carillon {

struct TrainOptions {                  // members in the order of --help
  std::vector<std::string> data;       ///< paths and globs of training records
  std::vector<std::string> eval_data;  ///< of records to evaluate on while training; none: no evaluation
  std::int64_t eval_every = 0;         ///< steps; 0: at the end only
  std::string image_key, label_key;    ///< features of a record; empty: the model's
  std::string train_dir;
  std::string model;
  std::int64_t max_steps = 1000;
  std::int64_t batch_size = 100;  ///< per tower
  double learning_rate = 0.001;
  double learning_rate_decay = 0.99;
  std::int64_t decay_steps = 0;  ///< 0: the reference's rule, from the batch size
  bool staircase = false;
  double regularization = 0.0001;
  double moving_average_decay = 0.99;
  double pixel_scale = 1.0;
  std::uint64_t seed = 1;
  bool shuffle = true;
  bool distort = true;             ///< where the program has it
  std::string cache = "auto";      ///< auto | memory | none
  std::string device = "auto";     ///< auto | cpu | cuda
  std::string precision = "fp32";  ///< fp32 | tf32 | bf16
  std::string comm = "auto";       ///< auto | nccl | mpi
  bool cuda_graph = true;
  std::int64_t threads = 0;  ///< per rank; 0: this rank's share of the cores
  std::int64_t bucket_kib = 4096;
  std::int64_t log_every = 10;
  std::int64_t summary_every = 10;  ///< 0: no summaries
  std::int64_t checkpoint_every = 1000;
  std::int64_t keep_checkpoints = 5;  ///< 0: all
  std::string resume = "auto";        ///< auto | never | require
  bool fresh = false;
  std::string init_from;
  bool log_device_placement = false;

  ModelSettings model_settings() const;
  ExponentialDecay schedule() const;
};

/// Declares all training options on `set`, with `options`' present values as defaults.
void declare(OptionSet& set, TrainOptions& options);

/// Refuses combinations that cannot work. Errors: usage, naming the option.
void check_combinations(const TrainOptions& options);

struct EvalOptions {
  std::vector<std::string> data;
  std::string image_key, label_key;
  std::string checkpoint;  ///< a file, or a train directory: its newest good one
  bool raw_weights = false;
  std::int64_t batch_size = 500;
  double pixel_scale = 0.0;  ///< 0: the checkpoint's
  std::string cache = "auto";
  std::string device = "auto";
  std::string precision = "fp32";
  std::int64_t threads = 0;
};

void declare(OptionSet& set, EvalOptions& options);

/// The decoder of the records that `model` takes, under these feature names where they are not empty.
std::unique_ptr<RecordDecoder> decoder_for(const Model& model, const std::string& image_key,
                                           const std::string& label_key);

/// "auto" | "memory" | "none" as a CacheMode.
CacheMode cache_mode(const std::string& text);

/// "fp32" | "tf32" | "bf16" as an Arithmetic.
Arithmetic arithmetic(const std::string& text);

}  // namespace carillon
