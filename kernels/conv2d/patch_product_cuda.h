// A convolution with windows that tile its input (windows_tile_input), on a GPU: a matrix product of patches.
//
//   y = patches W + b,  dW = patches^T dz,  patches of dx = dz W^T
//
// W is [window * window * in, filters], the parameter's own layout. So dW is a product with a float32 result, in the
// memory of the parameter's gradient. For windows of one pixel, x is the matrix of patches. For other windows the op
// has a buffer of the size of x: it holds the patches of x from forward to backward, then those of dx.
#pragma once

#include "kernels/conv2d/conv2d.h"

namespace carillon {

/// As make_conv2d_cuda. x has as many channels as the weights.
std::unique_ptr<Op> make_patch_product_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
