// Switches between two ways of computing the same on a GPU, for measurements and tests.
#pragma once

#include <string_view>

namespace carillon {

/// Whether a GPU must not use the way `name`. The environment variable CARILLON_GPU_OFF lists such ways, separated by
/// commas. If it is not set, the list is `off_by_default`.
///
///   fused_attention         cuDNN's attention in bf16; otherwise matrix products
///   patch_products          convolutions of patches as matrix products; otherwise cuDNN
///   pointwise_products      1x1 convolutions as matrix products; otherwise cuDNN
///   shared_gradients        residual blocks without sums and copies of gradients
///   measured_plans          the table of measured plans (kernels/conv2d/measured_plans_cuda.h); otherwise rules
///   bias_gradient_epilogue  bias gradients from the product of the weights' gradient; otherwise a kernel
bool is_switched_off(std::string_view name);

/// cuBLASLt does not document the order of the sums of its epilogue, and no GPU has shown yet that two runs are equal.
inline constexpr std::string_view off_by_default = "bias_gradient_epilogue";

}  // namespace carillon
