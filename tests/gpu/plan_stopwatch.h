// Measures the time of work on a GPU. For the fake GPU, which has no clock, tests/support/fake_cuda/plan_stopwatch.cpp
// replaces plan_stopwatch.cpp.
#pragma once

#include <functional>

#include "src/device/cuda_device.h"

namespace carillon::testing {

/// Returns the time, in microseconds, of the work that `enqueue` adds to the compute stream: the median over several
/// launches of a captured graph, as in a training. `best`: the best time so far, in microseconds. Work that is much
/// slower than `best` is timed only once, without a graph, so its time includes the latency of the launch.
double time_of(CudaDevice& device, const std::function<void()>& enqueue, double best);

}  // namespace carillon::testing
