// WinogradKernels and NarrowWinogradKernels: the arithmetic of Winograd's convolution for one instruction set, tile
// size and filter size. The loops are in winograd.h.
//
// A convolution of stride 1 with a filter of r x r is computed in tiles of m x m outputs. Each tile reads n x n inputs,
// with n = m + r - 1. For each channel and each filter, a tile needs n^2 products instead of m^2 r^2 products.
//
//   V = B^T d B      of n x n inputs d that overlap by r - 1      [n^2][tile][channel]
//   U = G g G^T      of a filter g                                [n^2][panel][channel][filter of the panel]
//   M = V U          for each of the n^2 frequencies, a matrix product over channels   [n^2][tile][filter]
//   y = A^T M A      m x m outputs
// and for the gradient of the filters, from Z = A dy A^T of m x m gradients dy (zeros outside the image):
//   W = sum over tiles of V Z,  dg = G^T W G                      W: [n^2][channel][filter]
//
// At the end of an image, a whole tile would compute outputs outside the image. A short tile uses fewer points and
// fewer products there. Short and whole tiles use the same filter transforms (winograd_tile.h).
//
// A vector contains neighbouring channels of V, or neighbouring filters of U, M, Z or W. The values of a vector are
// contiguous in memory, as in activations. V, M and Z round channel and filter counts up to whole vectors. U and W
// round up only filter counts. Elements beyond the counts are zero or never read.
//
// Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015 (arXiv:1509.09308). The
// construction of Toom and Cook makes the matrices from the points 0, 1, -1, 2, -2, 1/2, -1/2, ... and infinity.
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"

namespace carillon {

/// Images [batch, height, width, channels]. Each image is divided into `tiles_down` by `tiles_across` tiles of m x m.
struct WinogradImages {
  std::int64_t height, width, channels;
  std::int64_t tiles_down, tiles_across;
  /// The first row and column of the first tile, which may be before the image.
  std::int64_t first_row, first_column;
  /// True if each of these tiles has only WinogradKernels::short_tile rows, or columns, of outputs.
  bool short_rows = false, short_columns = false;
};

/// True if the tiles of `images` have frequency `f` of n^2. Short tiles omit the frequencies of the last finite point.
/// Always inline, because files for different instruction sets share this function.
[[gnu::always_inline]] constexpr bool has_frequency(const WinogradImages& images, int n, int f) {
  return !(images.short_rows && f / n == n - 2) && !(images.short_columns && f % n == n - 2);
}

/// One matrix per frequency: [n^2][rows][columns]. Each matrix starts `stride` floats after the previous matrix.
struct WinogradMatrices {
  float* data;
  std::int64_t columns;  ///< a multiple of the vector length
  std::int64_t stride;
};

struct WinogradKernels {
  int lanes;        ///< number of floats per vector
  int tile;         ///< m
  int short_tile;   ///< m of the short tiles at the images' ends; equal to `tile` if there are no short tiles
  int filter;       ///< r
  int frequencies;  ///< n^2

  /// Computes U for channels [first, last) of filters g [r, r, channels, filters]. U has `filters` columns, rounded up
  /// to whole vectors.
  void (*transform_filters)(const float* g, std::int64_t channels, std::int64_t filters, std::int64_t first,
                            std::int64_t last, const WinogradMatrices& u);
  /// Computes V for `count` tiles, starting at tile `first`, and writes it to the rows of V from `row` on. `zeros`: one
  /// zero per channel.
  void (*transform_inputs)(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                           std::int64_t count, std::int64_t row, const WinogradMatrices& v);
  /// Computes M = V U for `rows` tiles of the inputs and all frequencies of these tiles.
  void (*multiply)(const WinogradMatrices& v, const WinogradMatrices& u, const WinogradImages& inputs,
                   std::int64_t rows, const WinogradMatrices& m);
  /// Computes y = A^T M A + bias for `count` tiles, starting at tile `first`. Row 0 of M belongs to tile `first`. If
  /// `relu` is true, then applies a ReLU. `bias` may be null.
  void (*transform_outputs)(const WinogradMatrices& m, const WinogradImages& images, const float* bias, bool relu,
                            std::int64_t first, std::int64_t count, float* y);
  /// Computes Z for `count` tiles, starting at tile `first`, and writes it to the rows of Z from `row` on. Z has the
  /// same layout as V. `zeros`: one zero per filter.
  void (*transform_output_gradients)(const float* dy, const WinogradImages& images, const float* zeros,
                                     std::int64_t first, std::int64_t count, std::int64_t row,
                                     const WinogradMatrices& z);
  /// Computes W = V^T Z or, if `add` is true, W += V^T Z, for channels [first, last) of frequency `frequency`. The rows
  /// [0, rows) are divided into blocks of `block_rows` rows, and each block is summed separately.
  void (*multiply_transposed)(const WinogradMatrices& v, const WinogradMatrices& z, std::int64_t rows,
                              std::int64_t block_rows, int frequency, std::int64_t first, std::int64_t last, bool add,
                              const WinogradMatrices& w);
  /// Computes dg [r, r, channels, filters] for channels [first, last).
  void (*transform_filter_gradients)(const WinogradMatrices& w, std::int64_t channels, std::int64_t filters,
                                     std::int64_t first, std::int64_t last, float* dg);
};

/// Returns the kernels for filters of `filter` x `filter`, or null if there are no such kernels.
const WinogradKernels* winograd_kernels(Isa isa, std::int64_t filter);

/// The kernels for images with few channels, such as photographs at the start of a network.
///
/// If there are few channels, a matrix product per frequency would spend most of its time on moving the result to and
/// from memory. Therefore the products are fused with the transform of the outputs and with the transform of the
/// gradients. A vector contains neighbouring filters.
///
///   V [tile][n^2][4: the channels, then unused]    U, W [filters in vectors][n^2][channel][lane]
struct NarrowWinogradKernels {
  static constexpr int max_channels = 4;

  int lanes;        ///< number of floats per vector
  int tile;         ///< m
  int filter;       ///< r
  int frequencies;  ///< n^2

  /// Computes U for filters g [r, r, channels, filters].
  void (*transform_filters)(const float* g, std::int64_t channels, std::int64_t filters, float* u);
  /// Computes V for `count` tiles, starting at tile `first`. `zeros`: one zero per channel.
  void (*transform_inputs)(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                           std::int64_t count, float* v);
  /// Computes y = A^T M A + bias, with M = V U, for `count` tiles, starting at tile `first`. If `relu` is true, then
  /// applies a ReLU. `bias` may be null.
  void (*convolve)(const float* v, std::int64_t channels, const float* u, const WinogradImages& images,
                   const float* bias, bool relu, std::int64_t first, std::int64_t count, float* y);
  /// Computes W = the sum of V Z over `count` tiles, starting at tile `first`. If `add` is true, adds the sum to W
  /// instead.
  void (*multiply_gradients)(const float* v, std::int64_t channels, const float* dy, const WinogradImages& images,
                             const float* zeros, std::int64_t first, std::int64_t count, bool add, float* w);
  /// Computes dg [r, r, channels, filters].
  void (*transform_filter_gradients)(const float* w, std::int64_t channels, std::int64_t filters, float* dg);
};

/// Returns the kernels for filters of `filter` x `filter`, or null if there are no such kernels.
const NarrowWinogradKernels* narrow_winograd_kernels(Isa isa, std::int64_t filter);

}  // namespace carillon
