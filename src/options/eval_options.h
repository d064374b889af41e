// EvalOptions: the options of an evaluation program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/options/data_options.h"
#include "carillon/options/device_options.h"
#include "carillon/options/fault_options.h"
#include "src/options/option_set.h"

namespace carillon {

struct EvalOptions {
  /// batch_size: see DataOptions::evaluation_batch. pixel_scale 0: the checkpoint's.
  DataOptions data{.batch_size = 480, .decode_threads = 2, .pixel_scale = 0.0};
  std::int64_t first_label = -1;  ///< label of the first class in records of pictures; -1: as they say
  std::string checkpoint;         ///< a file, or a train directory: its newest good checkpoint
  bool raw_weights = false;       ///< evaluate the variables in place of their moving averages
  // Files that are written after the evaluation; empty: none.
  std::vector<std::string> report;  ///< the results of each class
  std::string predictions;          ///< the most probable classes of each record
  std::string mistakes;             ///< a sheet of pictures
  DeviceOptions device;
  FaultOptions faults;
};

/// Options that every evaluation program has.
void declare(OptionSet& set, EvalOptions& options);
/// Those of a program for pictures in addition.
void declare_first_label(OptionSet& set, EvalOptions& options);

}  // namespace carillon
