// winograd.h: conv2d's three passes by Winograd's method, on plain [n, h, w, c] activations, divided among threads.
//
// Sums have one order at any number of threads, so bits are equal. Relative error (root mean square, against float64)
// over the 600 cases of winograd_test: at most 6.1e-6 forward, 4.9e-6 for the gradient of the input, 4.5e-6 for the
// gradient of the weights; 5x5 filters have about twice the error of 3x3.
#pragma once

#include <memory>

#include "carillon/core/tensor.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {

/// Whether the method applies: stride 1 and a square filter of 3 or 5.
bool winograd_can(const Conv2dGeometry& geometry);

/// Whether the method is faster than direct convolution for filters [r, r, c, o] and outputs [n, p, q, o]. A fixed rule
/// of the shapes, so that results do not depend on measurements.
bool winograd_pays(const Shape& filters, const Shape& y);

/// A convolution y = x * filters + bias, then an optional ReLU.
///
/// x: [n, h, w, c], filters: [r, r, c, o], y: [n, p, q, o]; bias: [o], or no data. `before`: rows and columns of zeros
/// before the image. With `rotated`, it computes the gradient of the input: x is dz [n, p, q, o] and y is dx [n, h, w,
/// c], while filters and `before` are the same as in the forward convolution.
struct WinogradConvolution {
  Tensor x, filters, bias, y;
  std::int64_t rows_before = 0, columns_before = 0;
  bool relu = false, rotated = false;
};

/// dw = the sum over tiles of x and dz. x: [n, h, w, c], dz: [n, p, q, o], dw: [r, r, c, o].
struct WinogradFilterGradient {
  Tensor x, dz, dw;
  std::int64_t rows_before = 0, columns_before = 0;
};

/// A pass that uses matrix products, one per frequency.
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradFilterGradient& task);

/// A pass for at most NarrowWinogradKernels::max_channels channels, without `rotated`.
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradFilterGradient& task);

}  // namespace carillon
