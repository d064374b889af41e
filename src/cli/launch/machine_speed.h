// MachineSpeed: how long a training takes per picture on this machine, for each candidate network. `carillon train`
// uses it to choose a network.
//
// On CPUs this process measures a step. On GPUs, image_train runs a few steps on noise, because a GPU may accept only
// one process. Reading and decoding of pictures are not part of the measurement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/launch/ranks.h"
#include "src/cli/launch/training_choice.h"

namespace carillon {

struct MeasuredTraining {
  Launch launch;                            ///< number of ranks and cores of the training
  int gpus = 0;                             ///< number of GPUs; 0: the training computes on CPUs
  std::int64_t batch_size = 0;              ///< pictures per step, over all ranks
  std::vector<std::string> device_options;  ///< options of image_train for GPUs
  /// Directory for the files of a measurement; each measurement removes it at its beginning and end.
  std::filesystem::path directory;
};

class MachineSpeed {
 public:
  explicit MachineSpeed(MeasuredTraining training) : training_(std::move(training)) {}

  /// Returns the seconds per picture with all cores or all GPUs. Returns infinity if a stop signal arrived. Each
  /// candidate is measured only once. Errors: usage (the network refuses the size, or needs too much memory); the
  /// errors of image_train, after it has printed its message; io.
  double seconds_per_picture(const Candidate& candidate);

  /// Returns the elapsed time of the measurements on CPUs divided by their processor time, at least 1. The result is
  /// above 1 if other programs use the processor. On GPUs, returns 1.
  double slowdown() const {
    return std::max(1.0, processor_seconds_ > 0.0 ? elapsed_seconds_ / processor_seconds_ : 1.0);
  }

  /// True if a stop signal ended a measurement. Later measurements then do nothing.
  bool is_stopped() const { return is_stopped_; }

 private:
  double measured_on_cpus(const Candidate& candidate);
  double measured_on_gpus(const Candidate& candidate);

  MeasuredTraining training_;
  std::map<std::pair<std::string, std::int64_t>, double> known_;  ///< seconds per picture, by network and size
  double elapsed_seconds_ = 0.0, processor_seconds_ = 0.0;        ///< sums over all measurements on CPUs
  bool is_stopped_ = false;
};

}  // namespace carillon
