// Factory of the GPU's ForwardPass (cuda_forward_pass.cpp). Available in builds with CUDA.
#pragma once

#include "src/step/forward/forward_pass.h"

namespace carillon {

std::unique_ptr<ForwardPass> make_cuda_forward_pass(const ForwardContext& context, const ForwardSettings& settings);

}  // namespace carillon
