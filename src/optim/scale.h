// Multiplies a flat array by a number: turns sums that an all-reduce left into means (Communicator::result_scale).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "carillon/core/host_device.h"
#include "carillon/device/device.h"

namespace carillon {

/// Enqueues values[i] <- values[i] * factor on the device's stream. `values`: in the device's memory.
void enqueue_scale(std::span<float> values, float factor, Device& device);

struct ScaleElement {
  float* values = nullptr;
  float factor = 1.0f;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { values[i] = rounded_product(values[i], factor); }
};

/// CUDA builds only: `kernel` for `count` elements.
void enqueue_scale_cuda(const ScaleElement& kernel, std::size_t count, Stream& stream);

}  // namespace carillon
