// relu_in_place: y = max(y, 0) on a CPU, behind what made y; a NaN stays one.
#pragma once

#include "carillon/core/tensor.h"

namespace carillon {

/// y: float32.
void relu_in_place(const Tensor& y);

}  // namespace carillon
