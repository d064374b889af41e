// A convolution with windows that tile its input (windows_tile_input), on a GPU: a matrix product of patches.
//
//   y = patches W + b,  dW = patches^T dz,  patches of dx = dz W^T
//
// W has the parameter's own layout, [window * window * in, filters]. Therefore the product for dW writes its float32
// result directly to the memory of the parameter's gradient. For windows of one pixel, x is the matrix of patches. For
// other windows the op has a buffer of the size of x: it contains the patches of x from forward to backward, and then
// the patches of dx.
#pragma once

#include "kernels/conv2d/conv2d.h"

namespace carillon {

/// As make_conv2d_cuda. x must have as many channels as the weights.
std::unique_ptr<Op> make_patch_product_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
