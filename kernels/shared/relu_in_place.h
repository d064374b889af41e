// relu_in_place: y = max(y, 0) on a CPU, behind a product that made y; a NaN stays one. The op is kernels/relu.
#pragma once

#include "carillon/core/tensor.h"

namespace carillon {

/// y: float32.
void relu_in_place(const Tensor& y);

}  // namespace carillon
