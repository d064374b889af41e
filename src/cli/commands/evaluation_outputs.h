// Evaluation outputs: the files that an evaluation can write. These are reports, the predictions of all records, and a
// sheet of mistakes. Rank 0 writes them. Their bytes do not depend on the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/cli/program_spec.h"
#include "carillon/data/dataset.h"
#include "carillon/tasks/task.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/option_set.h"

namespace carillon {

/// The options of an evaluation program.
struct EvalOptions {
  /// batch_size: see DataOptions::evaluation_batch. pixel_scale 0: use the value in the checkpoint.
  DataOptions data{.batch_size = 480, .decode_threads = 2, .pixel_scale = 0.0};
  std::int64_t first_label = -1;  ///< label of the first class in records of pictures; -1: from records.json
  std::string checkpoint;         ///< a checkpoint file, or a train directory; a directory means its newest undamaged
                                  ///< checkpoint
  bool raw_weights = false;       ///< evaluate the variables instead of their moving averages
  // Files that are written after the evaluation; empty: no file.
  std::vector<std::string> report;  ///< JSON, CSV and HTML files: the results of each class, label or number
  std::string predictions;          ///< CSV file: target and prediction of each record
  std::string mistakes;             ///< PNG file: a sheet of the pictures with the worst predictions
  DeviceOptions device;
  FaultOptions faults;
};

/// Returns the first output option that the user set, such as "--report", or an empty text if the user set none.
std::string output_option(const EvalOptions& options);

/// Checks that all outputs can be written; changes nothing. Errors: usage (a file ending is unknown, or two options
/// name the same file), io.
void check_output_places(const EvalOptions& options);

/// Checks that the requested files can be made if the network has this number of outputs. Errors: usage (--report is
/// set, and there are too many classes for a confusion matrix).
void check_outputs_fit(const EvalOptions& options, TargetKind target, std::int64_t output_count);

/// Returns the metric of `task`. The metric also stores the data that the requested files need.
MakeMetric metric_for(const EvalOptions& options, TargetKind target, const Task& task);

/// An evaluation that has ended.
struct EvaluationResult {
  const std::string& program;  ///< name of the program
  const EvalOptions& options;
  const ProgramSpec& program_spec;
  const LoadedCheckpoint& loaded;
  const std::string& values;  ///< name of the kind of values that were evaluated: "moving averages"
  const Dataset& dataset;
  const Task& task;
  TargetKind target;     ///< kind of the records' targets
  const Metric& metric;  ///< the metric, which metric_for made
};

/// Writes the outputs. Each file is written completely or not at all. Calls `heartbeat` for each record that it writes
/// or draws. Errors: data (records changed during the evaluation), io, usage (a report has more than max_report_bytes
/// bytes).
void write_outputs(const EvaluationResult& result, const std::function<void()>& heartbeat);

}  // namespace carillon
