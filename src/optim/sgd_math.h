// sgd's update of one element, for the CPU form and CUDA kernels.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"

namespace carillon {

struct SgdParams {
  float learning_rate = 0.0f;
  float l2_factor = 0.0f;
  float average_decay = 0.0f;  ///< already min(decay, (1 + t) / (10 + t))
};

/// Fused, so that every processor rounds it alike. Zeros stay zeros.
CARILLON_HOST_DEVICE inline void sgd_element(const SgdParams& params, float gradient, float& value, float& average) {
  const float updated = std::fma(-params.learning_rate, std::fma(params.l2_factor, value, gradient), value);
  average = std::fma(params.average_decay - 1.0f, average - updated, average);
  value = updated;
}

}  // namespace carillon
