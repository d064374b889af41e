// winograd.h: conv2d's three passes by Winograd's method, on plain [n, h, w, c] activations, split over threads.
//
// Sums have one order at any number of threads: equal bits. Relative error (root mean square, against float64) over the
// 600 cases of winograd_test: at most 6.1e-6 forward, 4.9e-6 by data, 4.5e-6 by weights; 5x5 about twice 3x3.
#pragma once

#include <memory>

#include "carillon/core/tensor.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {

/// Whether there is such a form: stride 1, a square filter of 3 or 5.
bool winograd_can(const Conv2dGeometry& geometry);

/// Whether it is faster than direct convolution for these filters [r, r, c, o] and outputs [n, p, q, o]: a rule of the
/// shapes, never of a measurement.
bool winograd_pays(const Shape& filters, const Shape& y);

/// A convolution y = x * filters + bias, then ReLU if asked.
/// x: [n, h, w, c], filters: [r, r, c, o], y: [n, p, q, o]; bias: [o], or without data. Rows and columns before the
/// image that count as zeros: `before`. With `rotated`, the gradient by data: x stands for dz [n, p, q, o], y for
/// dx [n, h, w, c], filters are as they are, and `before` is the convolution's own.
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

/// By matrix products, one a frequency.
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradFilterGradient& task);

/// For the few channels of NarrowWinogradKernels::max_channels; never `rotated`.
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradFilterGradient& task);

}  // namespace carillon
