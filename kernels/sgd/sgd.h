// sgd: the fused update of one parameter tensor: L2 gradient, gradient descent, moving average, in one pass.
//
//   w <- w - learning_rate * (g + l2_factor * w)
//   a <- a - (1 - decay) * (a - w)            with the new w
//
// A flat operation on equally long arrays: 3 reads and 2 writes of 4 bytes an element, so memory decides its speed.
#pragma once

#include <span>

#include "carillon/core/device.h"

namespace carillon {

struct SgdParams {
  float learning_rate = 0.0f;
  float l2_factor = 0.0f;
  float average_decay = 0.0f;  ///< already min(decay, (1 + t) / (10 + t))
};

void sgd_update_cpu(const SgdParams& params, std::span<const float> gradient, std::span<float> value,
                    std::span<float> average);

/// sum of w^2 over `values`, in double precision and a fixed order.
double sum_of_squares_cpu(std::span<const float> values);

}  // namespace carillon
