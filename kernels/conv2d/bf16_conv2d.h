// Convolutions with operands in bf16 and sums in float32, by products of tiles (kernels/shared/bf16_tiles.h).
//
// x, y, the weights and their gradients are float32 in memory. They are rounded to bf16 as they are packed:
//   forward and data gradient: a left tile ("cell") is one pixel of 16 images by 32 channels. A product is omitted if
//     all its pixels are padding or between strides; otherwise tiles of zeros replace the pixels that are outside;
//   weights gradient: a left tile is 16 channels by 16 images of two neighbouring output columns.
// Because zeros are multiplied, an infinity next to padding can make NaN where float32 would omit it.
// The order of additions does not depend on the number of threads, so the bits do not either.
#pragma once

#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {

/// Whether the filters [r, r, c, o] have at least 16 channels and 16 filters. Others would mostly multiply padding.
bool bf16_pays(const Shape& filters);

Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);

}  // namespace carillon
