// Entry points of the CUDA backend. no_cuda.cpp replaces them in builds without CUDA.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"

namespace carillon {

/// The GPUs that this process can use.
struct CudaGpus {
  std::vector<int> ordinals;  ///< CUDA's numbers, ascending, not always consecutive: GPUs that are too old are omitted
  std::string why_none;       ///< reason if `ordinals` is empty
  bool hidden = false;        ///< GPUs may exist but cannot be used: worth a warning
};
CudaGpus find_cuda_gpus();

/// Versions of CUDA, cuDNN and cuBLAS at build time.
std::vector<LibraryVersion> cuda_libraries();

/// Opens the GPU at index `local_rank` of `ordinals`. If there are more ranks than GPUs, starts again at index 0.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, std::span<const int> ordinals);

}  // namespace carillon
