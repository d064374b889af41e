// How Winograd's convolutions divide images into tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "carillon/core/parallel.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/conv2d/winograd_kernels.h"

namespace carillon {

/// The inputs x [n, h, w, c] and outputs y [n, p, q, o] of a convolution, divided into equal numbers of tiles.
struct WinogradTiling {
  WinogradImages inputs, outputs;
  std::int64_t tiles;  ///< tiles of all images

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

  /// The images in tilings of whole and of short tiles, whole ones first. At least one tiling.
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
