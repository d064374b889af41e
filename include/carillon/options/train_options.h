// TrainOptions: the options of a training, one struct per consumer; a program's defaults are such a value.
//
// Each group is declared on the command line, validated and documented for --help in `src/options/<group>_options.cpp`.
#pragma once

#include "carillon/options/checkpoint_options.h"
#include "carillon/options/data_options.h"
#include "carillon/options/device_options.h"
#include "carillon/options/fault_options.h"
#include "carillon/options/logging_options.h"
#include "carillon/options/model_options.h"
#include "carillon/options/optimizer_options.h"
#include "carillon/options/task_options.h"

namespace carillon {

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
