// The GPU's StepDriver; cuda_driver.cpp, in builds with CUDA.
#pragma once

#include "carillon/step/driver.h"
#include "src/step/queue.h"

namespace carillon {

std::unique_ptr<StepDriver> make_cuda_step_driver(const DrivenTower& tower, const FeedForm& form, bool capture);

}  // namespace carillon
