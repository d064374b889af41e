// Convolutions of bf16 tensors with sums in float32, by products of tiles (kernels/shared/bf16_tiles.h).
//
// Weights and their gradients are float32 in memory; weights are rounded to bf16 as they are packed:
//   forward and data gradient: a left tile ("cell") is one pixel of 16 images by 32 channels. A product is omitted if
//     all its pixels are padding or between strides; otherwise tiles of zeros replace the pixels that are outside;
//   weights gradient: a left tile is 16 channels of one column by twice 16 images or, for a single group of 16, by its
//     images at a row of the upper and at one of the lower half;
//   fewer than 16 channels: the columns that a row of the filter reads become channels (expanded_columns.h).
// Because zeros are multiplied, an infinity next to padding can cause a NaN; float32 convolutions would omit this
// product.
// The order of additions does not depend on the number of threads, so the bits do not depend on it.
#pragma once

#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {

/// x, y and their gradients are bf16.
Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);

}  // namespace carillon
