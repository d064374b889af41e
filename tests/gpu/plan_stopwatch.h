// Times work on a GPU. The fake GPU has no clock: tests/support/fake_cuda/plan_stopwatch.cpp stands in.
#pragma once

#include <functional>

#include "src/device/cuda_device.h"

namespace carillon::testing {

/// Microseconds of the work that `enqueue` puts on the compute stream: the median of captured launches, as a step runs
/// it. Work that takes several times `best` is timed once, with the latency of the launch.
double time_of(CudaDevice& device, const std::function<void()>& enqueue, double best);

}  // namespace carillon::testing
