// The CUDA backend's door; `no_cuda.cpp` stands in for it in a build without CUDA.
#pragma once

#include <memory>

#include "carillon/device/device.h"

namespace carillon {

/// The GPUs that this process can use.
struct CudaGpus {
  int count = 0;
  std::string why_none;  ///< where there are none
  bool hidden = false;   ///< there may be some, but they cannot be used: worth telling who did not ask
};
CudaGpus find_cuda_gpus();

/// CUDA, cuDNN and cuBLAS, as they were at the build.
std::vector<LibraryVersion> cuda_libraries();

/// Number `local_rank` modulo `count`, of `count` GPUs.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, int count);

}  // namespace carillon
