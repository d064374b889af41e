// ExpandedColumns: for a convolution of few channels, the columns that a row of the filter reads, side by side.
//
//   expanded[n, h, q, j c + k] = x[n, h, q stride + j - before, k], zeros outside     x: [n, h, w, c], j < r, k < c
//
// Therefore a filter [r, r, c, o] with few channels becomes a filter [r, 1, r c, o] at the same address, which fills
// tiles better.
#pragma once

#include "kernels/shared/window.h"
#include "src/device/cpu_device.h"

namespace carillon {

class ExpandedColumns {
 public:
  /// x is bf16.
  ExpandedColumns(CpuDevice& device, const Tensor& x, const SlidingWindow& columns);

  /// Fills `tensor()` from x.
  void fill() const;
  /// [n, h, q, r c] in bf16.
  const Tensor& tensor() const { return expanded_; }
  /// The axis of the filter's columns, which are now channels.
  SlidingWindow columns() const { return {columns_.output, columns_.output, 1, 1, 0, 0}; }

 private:
  Tensor x_;
  SlidingWindow columns_;
  Buffer memory_;
  Tensor expanded_;
};

}  // namespace carillon
