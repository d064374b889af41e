// The GPU's SGD; sgd_cuda.cu, in builds with CUDA.
#pragma once

#include "carillon/optim/optimizer.h"

namespace carillon {

/// As make_sgd. Its last kernel also ends the step: notes its outcome in `inputs.progress` and counts it.
std::unique_ptr<Optimizer> make_sgd_cuda(const ParameterStore& parameters, Device& device, const StepInputs& inputs);

}  // namespace carillon
