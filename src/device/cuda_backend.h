// Entry points of the CUDA backend. no_cuda.cpp replaces them in builds without CUDA.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// Opens the GPU at index `local_rank` of `ordinals`. If there are more ranks than GPUs, indices start again at 0.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, std::span<const int> ordinals);

// Switches between two implementations of the same computation on a GPU, for measurements and tests.

/// Whether the implementation `name` is switched off for GPUs. The environment variable CARILLON_GPU_OFF lists the
/// implementations that are switched off, separated by commas. If the variable is not set, the list is
/// `off_by_default`.
///
///   fused_attention         cuDNN's attention in bf16; otherwise matrix products
///   patch_products          convolutions of patches as matrix products; otherwise cuDNN
///   pointwise_products      1x1 convolutions as matrix products; otherwise cuDNN
///   shared_gradients        residual blocks without sums and copies of gradients
///   measured_plans          the table of measured plans (kernels/conv2d/conv2d_plan_cuda.h); otherwise rules
///   bias_gradient_epilogue  bias gradients from the product of the weights' gradient; otherwise a kernel
bool is_switched_off(std::string_view name);

/// This implementation is off because cuBLASLt does not document the summation order of its epilogue, and no test on a
/// GPU has shown yet that two runs give equal bits.
inline constexpr std::string_view off_by_default = "bias_gradient_epilogue";

}  // namespace carillon
