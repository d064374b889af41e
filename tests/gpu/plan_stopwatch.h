// Times work on a GPU. The fake GPU has no clock: tests/support/fake_cuda/plan_stopwatch.cpp stands in.
#pragma once

#include <functional>

#include "src/device/cuda_device.h"

namespace carillon::testing {

/// The time in microseconds of the work that `enqueue` adds to the compute stream. It is a median over captured
/// launches, because steps are captured, too. Work that takes several times `best` is timed only once, including the
/// latency of the launch.
double time_of(CudaDevice& device, const std::function<void()>& enqueue, double best);

}  // namespace carillon::testing
