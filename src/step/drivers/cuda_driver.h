// The StepDriver of a GPU. CUDA builds only.
#pragma once

#include "src/step/drivers/driver.h"
#include "src/step/drivers/queue.h"

namespace carillon {

std::unique_ptr<StepDriver> make_cuda_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);

}  // namespace carillon
