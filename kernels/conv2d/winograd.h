// conv2d's three passes by Winograd's method, on plain [n, h, w, c] activations. The work is divided among threads.
//
// The number of threads changes neither the order of a sum nor the bits of the results. The relative error (root mean
// square, against float64) over the 600 cases of winograd_test is at most 6.1e-6 in forward, 4.9e-6 for the gradient of
// the input, and 4.5e-6 for the gradient of the weights. 5x5 filters have about twice the error of 3x3 filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "carillon/core/parallel.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd_kernels.h"

namespace carillon {

/// True if the method supports the convolution: it must be plain, with stride 1 and a filter of 3x3 or 5x5.
bool winograd_can(const Conv2dGeometry& geometry);

/// True if the method is faster than direct convolution for filters [r, r, c, o] and outputs [n, p, q, o]. This is a
/// fixed rule on the shapes, so that results do not depend on measurements.
bool winograd_pays(const Shape& filters, const Shape& y);

/// The convolution y = x * filters + bias, with an optional ReLU after it.
///
/// x: [n, h, w, c], filters: [r, r, c, o], y: [n, p, q, o]; bias: [o], or no data. `rows_before`, `columns_before`:
/// numbers of rows and columns of zeros before the image. If `rotated` is true, the pass computes the gradient of the
/// input: x is dz [n, p, q, o] and y is dx [n, h, w, c]. `filters`, `rows_before` and `columns_before` are the same as
/// in the forward convolution.
struct WinogradConvolution {
  Tensor x, filters, bias, y;
  std::int64_t rows_before = 0, columns_before = 0;
  bool relu = false, rotated = false;
};

/// Computes dw, the gradient of the filters, as a sum over the tiles of x and dz. x: [n, h, w, c], dz: [n, p, q, o],
/// dw: [r, r, c, o].
struct WinogradFilterGradient {
  Tensor x, dz, dw;
  std::int64_t rows_before = 0, columns_before = 0;
};

/// Makes a pass that uses matrix products, one per frequency.
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradFilterGradient& task);

/// Makes a pass for at most NarrowWinogradKernels::max_channels channels. The pass does not support `rotated`.
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradConvolution& task);
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradFilterGradient& task);

/// The inputs x [n, h, w, c] and outputs y [n, p, q, o] of a convolution, divided into the same number of tiles.
struct WinogradTiling {
  WinogradImages inputs, outputs;
  std::int64_t tiles;  ///< number of tiles of all images together

  /// `rows_before`, `columns_before`: rows and columns of zeros before the image.
  WinogradTiling(const Tensor& x, const Tensor& y, std::int64_t tile, std::int64_t rows_before,
                 std::int64_t columns_before)
      : inputs{.height = x.shape[1],
               .width = x.shape[2],
               .channels = x.shape[3],
               .tiles_down = ceil_divide(y.shape[1], tile),
               .tiles_across = ceil_divide(y.shape[2], tile),
               .first_row = -rows_before,
               .first_column = -columns_before},
        outputs{.height = y.shape[1],
                .width = y.shape[2],
                .channels = y.shape[3],
                .tiles_down = inputs.tiles_down,
                .tiles_across = inputs.tiles_across,
                .first_row = 0,
                .first_column = 0},
        tiles(x.shape[0] * inputs.tiles_down * inputs.tiles_across) {}

  /// Divides the images into tilings with whole tiles and tilings with short tiles. The tilings with whole tiles are
  /// first. Returns at least one tiling.
  std::vector<WinogradTiling> with_short_ends(int tile, int short_tile) const {
    const auto has_short_end = [=](std::int64_t extent, std::int64_t tiles_along) {
      return short_tile < tile && extent - (tiles_along - 1) * tile <= short_tile;
    };
    const bool ends_short_down = has_short_end(outputs.height, outputs.tiles_down),
               ends_short_across = has_short_end(outputs.width, outputs.tiles_across);
    std::vector<WinogradTiling> parts;
    for (const bool short_rows : {false, true}) {
      for (const bool short_columns : {false, true}) {
        if ((short_rows && !ends_short_down) || (short_columns && !ends_short_across)) continue;
        WinogradTiling part = *this;
        for (WinogradImages* images : {&part.inputs, &part.outputs}) {
          const std::int64_t whole_down = images->tiles_down - ends_short_down,
                             whole_across = images->tiles_across - ends_short_across;
          images->short_rows = short_rows;
          images->short_columns = short_columns;
          images->tiles_down = short_rows ? 1 : whole_down;
          images->tiles_across = short_columns ? 1 : whole_across;
          if (short_rows) images->first_row += whole_down * tile;
          if (short_columns) images->first_column += whole_across * tile;
        }
        part.tiles =
            tiles / (inputs.tiles_down * inputs.tiles_across) * part.inputs.tiles_down * part.inputs.tiles_across;
        if (part.tiles > 0) parts.push_back(part);
      }
    }
    return parts;
  }
};

}  // namespace carillon
