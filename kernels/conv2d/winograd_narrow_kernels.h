// NarrowWinogradKernels: Winograd's convolution (winograd_kernels.h) of images with few channels, such as photographs
// at the start of a network.
//
// With few channels, a matrix product per frequency would spend most of its time on moving the result to and from
// memory. Therefore the products are fused with the transforms: with the transform of the outputs, and with the
// transform of the gradients. Vectors run across filters.
//
//   V [tile][n^2][4, of which the first are channels]    U, W [filters in vectors][n^2][channel][lane]
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"
#include "kernels/conv2d/winograd_kernels.h"

namespace carillon {

struct NarrowWinogradKernels {
  static constexpr int max_channels = 4;

  int lanes;        ///< floats per vector
  int tile;         ///< m
  int filter;       ///< r
  int frequencies;  ///< n^2

  /// U of filters g [r, r, channels, filters].
  void (*transform_filters)(const float* g, std::int64_t channels, std::int64_t filters, float* u);
  /// V for `count` tiles from tile `first`. `zeros`: one zero per channel.
  void (*transform_inputs)(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                           std::int64_t count, float* v);
  /// y = A^T M A + bias with M = V U, then ReLU with `relu`, for these tiles. `bias` may be null.
  void (*convolve)(const float* v, std::int64_t channels, const float* u, const WinogradImages& images,
                   const float* bias, bool relu, std::int64_t first, std::int64_t count, float* y);
  /// W = the sum over these tiles of V Z, or with `add` W += the sum.
  void (*multiply_gradients)(const float* v, std::int64_t channels, const float* dy, const WinogradImages& images,
                             const float* zeros, std::int64_t first, std::int64_t count, bool add, float* w);
  /// dg [r, r, channels, filters].
  void (*transform_filter_gradients)(const float* w, std::int64_t channels, std::int64_t filters, float* dg);
};

/// The kernels for filters of this size; null if there are none.
const NarrowWinogradKernels* narrow_winograd_kernels(Isa isa, std::int64_t filter);

}  // namespace carillon
