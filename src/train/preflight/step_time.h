// Step time: measures one training step of a network on noise images. Only this process computes, without MPI.
//
// The measurement does not include reading and decoding of records and averaging over ranks.
#pragma once

#include <ctime>

#include <cstdint>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "carillon/optim/optimizer_settings.h"
#include "carillon/tasks/task.h"

namespace carillon {

/// Seconds since its construction.
class Stopwatch {
 public:
  explicit Stopwatch(clockid_t clock) : clock_(clock), start_(now()) {}
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  clockid_t clock_;
  double start_;
};

struct StepTimeSettings {
  NetworkSettings network;  ///< must have at least `image` and `outputs`; `record_count` is not needed
  Task task;                ///< must have `network.outputs` outputs
  Arithmetic arithmetic = Arithmetic::fp32;
  OptimizerSettings optimizer = {};  ///< the learning rate does not matter
  std::int64_t batch_size = 32;      ///< largest batch to measure
  double seconds = 3.0;              ///< approximate duration of the measurement
  int processes = 1;                 ///< number of processes of this host that measure at the same time
  /// For a device with one thread, CLOCK_THREAD_CPUTIME_ID is better, because other programs on the same core then
  /// hardly change the result.
  clockid_t clock = CLOCK_MONOTONIC;
};

struct StepTime {
  std::int64_t batch_size = 0;  ///< images per measured step
  double seconds = 0.0;         ///< median time of a step
  double seconds_per_image() const { return seconds / static_cast<double>(batch_size); }
};

/// Measures a step with the largest batch, up to settings.batch_size, that memory and settings.seconds permit. Runs at
/// least 4 steps with Device::min_samples images per thread, even if these steps take longer than settings.seconds.
/// Errors: usage (the network does not support the images, or a single image needs too much memory).
StepTime measure_step(MakeNetwork make, const StepTimeSettings& settings, Device& device);

}  // namespace carillon
