// The L2 loss of variables in the host's memory. A GPU's update computes it (src/optim/update_kernels.h).
//
//   l2_loss = sum over variables of l2_factor * sum(w^2) / 2
#pragma once

#include <cstddef>

#include "carillon/graph/parameters.h"

namespace carillon {

/// The L2 loss of the present values, in double precision and a fixed order.
double l2_loss(const ParameterStore& parameters);

/// sum of w^2, in double precision and a fixed order.
double sum_of_squares(const float* values, std::size_t count);

}  // namespace carillon
