// The CUDA backend's door; `no_cuda.cpp` stands in for it in a build without CUDA.
#pragma once

#include <memory>

#include "carillon/core/device.h"

namespace carillon {

/// GPUs this process sees; 0 without a driver.
int cuda_device_count();

/// GPU number `local_rank` modulo their count. Errors: no_device, with the reason.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request);

}  // namespace carillon
