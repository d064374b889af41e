// Elementwise operations on flat arrays, on CPU and GPU: the lookahead, and multiplication by a scalar.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "carillon/core/host_device.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"
#include "src/graph/step_end.h"
#include "src/optim/optimizer.h"

namespace carillon {

CARILLON_HOST_DEVICE inline bool looks_ahead(const StepScalars& scalars) {
  return scalars.at[lookahead_scalar] >= 0.0f;
}

/// Applies the lookahead to one element, in steps in which looks_ahead is true. If a value equals its slow copy,
/// neither changes by a bit. With scalar 0 the slow copy does not change.
CARILLON_HOST_DEVICE inline void look_ahead(const StepScalars& scalars, float& value, float& slow) {
  slow = std::fma(scalars.at[lookahead_scalar], value - slow, slow);
  value = slow;
}

/// The lookahead of a network's buffers.
struct LookAheadElement {
  float *values = nullptr, *slow = nullptr;
  StepTable table;
  StepEnd end;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const StepScalars scalars = table.header().scalars;
    if (end.allows_update() && looks_ahead(scalars)) look_ahead(scalars, values[i], slow[i]);
  }
};

struct ScaleElement {
  float* values = nullptr;
  float factor = 1.0f;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { values[i] = rounded_product(values[i], factor); }
};

/// Enqueues values[i] <- values[i] * factor on the device's stream. With Communicator::result_scale as factor, it turns
/// the sums of an all-reduce into means. `values`: in the device's memory.
void enqueue_scale(std::span<float> values, float factor, Device& device);

// CUDA builds only: enqueues `kernel` for `count` elements.
void enqueue_lookahead_cuda(const LookAheadElement& kernel, std::size_t count, Stream& stream);
void enqueue_scale_cuda(const ScaleElement& kernel, std::size_t count, Stream& stream);

}  // namespace carillon
