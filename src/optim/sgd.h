// sgd: the fused update of parameters: L2 gradient, gradient descent, moving average, in one pass. The CPU's function
// takes one tensor, the GPU's kernel all of them (sgd_kernels.h).
//
//   w <- w - learning_rate * (g + l2_factor * w)
//   a <- a - (1 - decay) * (a - w)            with the new w
//
// A flat operation on equally long arrays: 3 reads and 2 writes of 4 bytes an element, so memory decides its speed.
#pragma once

#include <span>

#include "src/optim/sgd_math.h"

namespace carillon {

void sgd_update_cpu(const SgdParams& params, std::span<const float> gradient, std::span<float> value,
                    std::span<float> average);

/// sum of w^2 over `values`, in double precision and a fixed order.
double sum_of_squares_cpu(std::span<const float> values);

}  // namespace carillon
