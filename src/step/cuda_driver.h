// The GPU's StepDriver and BatchFeed; cuda_step_driver.cpp, in builds with CUDA.
#pragma once

#include "carillon/step/driver.h"

namespace carillon {

std::unique_ptr<StepDriver> make_cuda_step_driver(Device& device, Communicator& communicator,
                                                  const StepDriverSettings& settings);
std::unique_ptr<BatchFeed> make_cuda_batch_feed(Device& device, std::size_t batch_size, std::size_t image_bytes);

}  // namespace carillon
