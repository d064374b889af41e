// Factory of the GPU's InputStage (cuda_input_stage.cpp). Available in builds with CUDA.
#pragma once

#include "src/step/input/input_stage.h"

namespace carillon {

std::unique_ptr<InputStage> make_cuda_input_stage(Device& device, const InputStageSpec& form);

}  // namespace carillon
