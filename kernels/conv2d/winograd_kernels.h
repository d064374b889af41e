// WinogradKernels: the arithmetic of Winograd's convolution for one instruction set, tile and filter size; what loops
// over it is winograd.h.
//
// A convolution of stride 1 with a filter of r x r is computed in tiles of m x m outputs: each from n x n inputs, with
// n = m + r - 1, by n^2 products a channel pair in place of m^2 r^2.
//
//   V = B^T d B      of n x n inputs d that overlap by r - 1      [n^2][tile][channel]
//   U = G g G^T      of a filter g                                [n^2][panel][channel][filter of the panel]
//   M = V U          for each of the n^2 frequencies, a matrix product over channels   [n^2][tile][filter]
//   y = A^T M A      m x m outputs
// and for the gradient of the filters, from Z = A dy A^T of m x m gradients dy (zeros beyond the image):
//   W = sum over tiles of V Z,  dg = G^T W G                      W: [n^2][channel][filter]
//
// At an image's end, where a whole tile would compute outputs that nobody wants, a short one takes fewer points, and so
// fewer products; the filters' transforms are the same (winograd_transforms.h).
//
// Vectors lie across channels (of V) and filters (of U, M, Z, W): activations as they lie in memory. Channel and filter
// counts are rounded up to whole vectors in V, M and Z, and filters in U and W; what is beyond the counts is zero or
// never read.
//
// Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015 (arXiv:1509.09308); matrices
// from the points 0, 1, -1, 2, -2, 1/2, -1/2, ... and infinity by the construction of Toom and Cook.
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"

namespace carillon {

/// Images [batch, height, width, channels], cut into tiles of m x m, `tiles_down` by `tiles_across` each.
struct WinogradImages {
  std::int64_t height, width, channels;
  std::int64_t tiles_down, tiles_across;
  /// The first row and column that the first tile takes, which may be before the image.
  std::int64_t first_row, first_column;
  /// Of these tiles each has WinogradKernels::short_tile rows or columns of outputs.
  bool short_rows = false, short_columns = false;
};

/// Whether such tiles have frequency `f` of n^2: short ones go without the last finite point. Always inline: shared by
/// files that are compiled for different instruction sets.
[[gnu::always_inline]] constexpr bool has_frequency(const WinogradImages& images, int n, int f) {
  return !(images.short_rows && f / n == n - 2) && !(images.short_columns && f % n == n - 2);
}

/// A matrix for each frequency: [n^2][rows][columns], each starting `stride` floats behind the one before.
struct WinogradMatrices {
  float* data;
  std::int64_t columns;  ///< whole vectors
  std::int64_t stride;
};

struct WinogradKernels {
  int lanes;        ///< floats of a vector
  int tile;         ///< m
  int short_tile;   ///< m of the short tiles, which are taken at the images' ends; as `tile`: there are none
  int filter;       ///< r
  int frequencies;  ///< n^2

  /// U for channels [first, last) of filters g [r, r, channels, filters]; U's columns as `filters` in whole vectors.
  void (*transform_filters)(const float* g, std::int64_t channels, std::int64_t filters, std::int64_t first,
                            std::int64_t last, const WinogradMatrices& u);
  /// V for `count` tiles from tile `first`; the first tile's goes to row `row`. `zeros`: as many as there are channels.
  void (*transform_inputs)(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                           std::int64_t count, std::int64_t row, const WinogradMatrices& v);
  /// M = V U for `rows` tiles of the inputs and all of their frequencies.
  void (*multiply)(const WinogradMatrices& v, const WinogradMatrices& u, const WinogradImages& inputs,
                   std::int64_t rows, const WinogradMatrices& m);
  /// y = A^T M A + bias, then ReLU if asked, for `count` tiles from tile `first`, M's rows from 0. No bias: null.
  void (*transform_outputs)(const WinogradMatrices& m, const WinogradImages& images, const float* bias, bool relu,
                            std::int64_t first, std::int64_t count, float* y);
  /// Z, as V.
  void (*transform_output_gradients)(const float* dy, const WinogradImages& images, const float* zeros,
                                     std::int64_t first, std::int64_t count, std::int64_t row,
                                     const WinogradMatrices& z);
  /// W = V^T Z, or with `add` W += V^T Z, over rows [0, rows) in blocks of `block_rows`, each summed on its own, for
  /// channels [first, last) of frequency `frequency`.
  void (*multiply_transposed)(const WinogradMatrices& v, const WinogradMatrices& z, std::int64_t rows,
                              std::int64_t block_rows, int frequency, std::int64_t first, std::int64_t last, bool add,
                              const WinogradMatrices& w);
  /// dg [r, r, channels, filters] for channels [first, last).
  void (*transform_filter_gradients)(const WinogradMatrices& w, std::int64_t channels, std::int64_t filters,
                                     std::int64_t first, std::int64_t last, float* dg);
};

/// Null: there are none for filters of that size.
const WinogradKernels* winograd_kernels(Isa isa, std::int64_t filter);

}  // namespace carillon
