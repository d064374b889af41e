// Entry points of the CUDA backend. no_cuda.cpp replaces them in builds without CUDA.
#pragma once

#include <memory>

#include "carillon/device/device.h"

namespace carillon {

/// The GPUs that this process can use.
struct CudaGpus {
  int count = 0;
  std::string why_none;  ///< reason if `count` is 0
  bool hidden = false;   ///< GPUs may exist but cannot be used: worth a warning
};
CudaGpus find_cuda_gpus();

/// Versions of CUDA, cuDNN and cuBLAS at build time.
std::vector<LibraryVersion> cuda_libraries();

/// Opens GPU number `local_rank` modulo `count`.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, int count);

}  // namespace carillon
