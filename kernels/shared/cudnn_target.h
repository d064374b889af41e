// CudnnTarget: the GPU for which cuDNN makes a plan, and its model. CUDA builds only.
#pragma once

#include <cudnn.h>

#include <string_view>

namespace carillon {

/// The GPU of `handle`, or a GPU that need not be present, described in JSON (the device property descriptor of
/// cuDNN 9.8). A plan for a GPU that is not present cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string_view device_json = {};
};

struct GpuModel {
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
};

}  // namespace carillon
