// winograd.h: conv2d's three passes by Winograd's method, on plain [n, h, w, c] activations, split over threads.
//
// Tiles are taken in chunks whose transforms stay in the second cache: inputs are transformed, multiplied and
// transformed back while they are there. What a chunk holds depends on the shapes and the instruction set, and sums
// have one order at any number of threads: equal bits.
//
// Relative error (root mean square against float64): about 2e-6 forward, 1e-5 for weights; direct convolution 5e-7.
#pragma once

#include "carillon/core/tensor.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/winograd_kernels.h"
#include "src/device/cpu_device.h"

namespace carillon {

/// Whether there is such a form: stride 1, a square filter of 3 or 5.
bool winograd_can(const Conv2dGeometry& geometry);

/// Whether it is faster than direct convolution for these filters [r, r, c, o] and outputs [n, p, q, o]: a rule of the
/// shapes, never of a measurement.
bool winograd_pays(const Shape& filters, const Shape& y);

/// A convolution y = x * filters + bias, then ReLU if asked.
class WinogradConvolution {
 public:
  /// x: [n, h, w, c], filters: [r, r, c, o], y: [n, p, q, o]; bias: [o], or without data. Rows and columns before the
  /// image that count as zeros: `before`. With `rotated`, the gradient by data: x stands for dz [n, p, q, o], y for
  /// dx [n, h, w, c], filters as they are, and `before` for the convolution's own.
  struct Task {
    Tensor x, filters, bias, y;
    std::int64_t rows_before = 0, columns_before = 0;
    bool relu = false, rotated = false;
  };
  WinogradConvolution(CpuDevice& device, const Task& task);

  void run() const;

 private:
  /// U, of which each thread makes a part.
  WinogradMatrices transform_filters(float* workspace, int thread, int threads) const;

  CpuDevice& device_;
  Task task_;
  const WinogradKernels& kernels_;
  std::int64_t channels_, filters_;  ///< of this pass
  WinogradImages inputs_, outputs_;
  std::int64_t tiles_, chunk_tiles_;
  std::int64_t v_columns_, m_columns_;
  std::size_t zeros_, rotated_, u_, v_, m_;  ///< places in the workspace, in floats; a V and an M for each thread
};

/// dW = the sum over tiles of x and dz.
class WinogradFilterGradient {
 public:
  /// x: [n, h, w, c], dz: [n, p, q, o], dw: [r, r, c, o].
  struct Task {
    Tensor x, dz, dw;
    std::int64_t rows_before = 0, columns_before = 0;
  };
  WinogradFilterGradient(CpuDevice& device, const Task& task);

  void run() const;

 private:
  CpuDevice& device_;
  Task task_;
  const WinogradKernels& kernels_;
  WinogradImages inputs_, gradients_;
  std::int64_t tiles_, block_tiles_;  ///< of a block, which is summed on its own
  std::int64_t v_columns_, z_columns_, v_stride_, z_stride_, w_stride_;
  std::size_t zeros_, v_, z_, w_;  ///< places in the workspace, in floats
};

}  // namespace carillon
