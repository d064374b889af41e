// DepthwiseKernels: the loops of depthwise_conv2d over one image and one vector of channels, for one instruction set.
//
// The gradient of the input is also a convolution: dy is convolved with the filters, which are turned by 180 degrees.
// If the stride is s, there are s - 1 zeros between neighbouring values of dy.
//
// Rows of the input are copied to scratch memory as float32, with zeros for the padding. A ring of rows in this memory
// holds the rows that the current output row reads. Sums are kept in registers. A convolution keeps the sums of several
// output columns of one row. The gradient of the filters keeps the sums of the columns of one filter row. The order of
// each sum depends only on the shapes and the instruction set.
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"

namespace carillon {

/// One axis of a convolution.
struct DepthwiseAxis {
  std::int64_t input, output, window, stride, before;
  std::int64_t spacing = 1;  ///< distance of neighbouring inputs; the positions between them hold zeros
};

struct DepthwiseConvolution {
  DepthwiseAxis vertical, horizontal;
  std::int64_t channels;
  bool is_bf16;  ///< type of the images: true: bf16, false: float32
  bool turned;   ///< true: the filters are turned by 180 degrees
};

struct DepthwiseKernels {
  int lanes;  ///< number of channels that a call processes

  /// Number of floats of scratch memory that the functions require. The memory must be zero at the first call, and
  /// other convolutions must not use it.
  std::int64_t (*convolution_scratch)(const DepthwiseConvolution& convolution);
  std::int64_t (*gradient_scratch)(const DepthwiseConvolution& convolution);
  /// Computes y, the convolution of an image, for `lanes` channels, starting at `channel`. x: [height, width,
  /// channels], y: [output height, output width, channels], weights: [window, window, channels], biases: [channels] or
  /// null.
  void (*convolve)(const DepthwiseConvolution& convolution, const void* x, const float* weights, const float* biases,
                   std::int64_t channel, void* y, float* scratch);
  /// Adds the gradients for an image to sums [window * window + 1][lanes]: first the gradients of the weights, then the
  /// gradients of the biases.
  void (*add_gradients)(const DepthwiseConvolution& convolution, const void* x, const void* dy, std::int64_t channel,
                        float* sums, float* scratch);
};

const DepthwiseKernels& depthwise_kernels(Isa isa);

}  // namespace carillon
